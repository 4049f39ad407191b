"""Predictions for whole examples, of any task."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from starlette.responses import Response

from unspool.errors import DivergenceError, UnspoolError
from unspool.server.answers import Asked, answer
from unspool.server.jobs import Call
from unspool.server.models import ServedModel, find_model
from unspool.server.refusals import unusable
from unspool.server.service import Service


async def predict(service: Service, asked: Asked) -> Response:
    """Predictions, one object per example."""
    model = find_model(service.models, asked.body.get("model"))
    if model.generates:
        raise unusable(f"The model {model.name} generates text. Ask /v1/completions.", "model")
    examples = asked.body["examples"]
    given = [examples] if isinstance(examples, str) else examples
    found = await model.batcher.run(Call(lambda: predict_examples(model, given)))
    return answer({"model": model.name, "predictions": found})


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
