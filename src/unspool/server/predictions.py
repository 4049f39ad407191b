"""Predictions for whole examples, of any task."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
from starlette.responses import Response

from unspool.errors import DivergenceError, UnspoolError
from unspool.server.answers import Asked, answer_large
from unspool.server.jobs import Course
from unspool.server.models import ServedModel, find_model
from unspool.server.refusals import RefusalError, unusable
from unspool.server.service import Service
from unspool.server.waiting import count

#: Characters, words or numbers of the examples that are predicted before others have their turn.
PIECE = 2048


async def predict(service: Service, asked: Asked) -> Response:
    """Predictions, one object per example."""
    model = find_model(service.models, asked.body.get("model"))
    if model.generates:
        raise unusable(f"The model {model.name} generates text. Ask /v1/completions.", "model")
    examples = asked.body["examples"]
    given = [examples] if isinstance(examples, str) else examples
    found = await model.batcher.run(Course(predicting(model, given)))
    return await answer_large({"model": model.name, "predictions": found})


def predicting(model: ServedModel, examples: Any) -> Generator[None, None, list[dict[str, Any]]]:
    """Predictions piece by piece, so that others have their turn; they are those for all at once, up to rounding.

    Raises:
        RefusalError: 422: the model cannot read the examples.
        DivergenceError: A prediction is not finite.
    """
    found: list[dict[str, Any]] = []
    for piece in divide(examples, model.player.task.usage().reads == "series"):
        try:
            found += predict_examples(model, piece)
        except DivergenceError:
            raise
        except (RefusalError, UnspoolError):
            predict_examples(model, examples)  # it fails in the same way, and says where among all of them
            raise
        yield
    return found


def divide(examples: Any, series: bool) -> Iterator[Any]:
    """Pieces of examples, each with few steps or one example. A list of a forecast is one series."""
    if not _can_divide(examples, series):
        yield examples
        return
    items = list(examples.items()) if isinstance(examples, dict) else examples
    first, steps = 0, 0
    for place, one in enumerate(items):
        own = count(one[1] if isinstance(examples, dict) else one)
        if place > first and steps + own > PIECE:
            yield _piece(examples, items[first:place])
            first, steps = place, 0
        steps += own
    yield _piece(examples, items[first:])


def _can_divide(examples: Any, series: bool) -> bool:
    """Whether there are several examples, each a text, a list, or a series by its name."""
    if isinstance(examples, dict):
        return bool(examples)
    return bool(examples) and not series and all(isinstance(one, str | list) for one in examples)


def _piece(examples: Any, items: list[Any]) -> Any:
    return dict(items) if isinstance(examples, dict) else items


def predict_examples(model: ServedModel, examples: Any) -> list[dict[str, Any]]:
    """Predictions as JSON has them.

    Raises:
        RefusalError: 422: the model cannot read the examples.
        DivergenceError: A prediction is not finite.
    """
    try:
        rows = model.player.predict(examples)
    except UnspoolError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, OverflowError, AttributeError) as error:
        # what tasks do not check: examples of another kind than theirs
        message = f"The model {model.name}, of the task {model.player.task.name}, cannot read these examples."
        raise unusable(message, "examples") from error
    return [{name: plain(value) for name, value in row.items()} for row in rows]


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        raise DivergenceError("a prediction is not finite")
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    return value if isinstance(value, str | int | float | None) else str(value)
