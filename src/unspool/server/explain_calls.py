"""What a model made of an example: step by step, inside and outside, and which steps matter."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

from starlette.responses import Response

from unspool.errors import UnspoolError
from unspool.runtime.explaining import Importance, TracedExample, tracing_example, weighing_steps
from unspool.server.answers import Asked, answer
from unspool.server.jobs import Course, checked
from unspool.server.models import ServedModel, find_model
from unspool.server.refusals import unusable
from unspool.server.service import Service
from unspool.server.traces import show_values

#: Steps of an example that is traced, and steps that are left out in turn.
MOST_STEPS, MOST_LEFT_OUT = 256, 128


async def trace(service: Service, asked: Asked) -> Response:
    """What a model makes of an example after each step, and its states and gates there."""
    model = find_model(service.models, asked.body.get("model"))
    given = asked.body["input"]
    found: TracedExample = await _explain(model, tracing_example(model.player, given, MOST_STEPS))
    outputs = None if found.outputs is None else checked(found.outputs).tolist()
    values = show_values([checked(one) for one in found.values])
    steps = [
        {"text": text, "output": None if outputs is None else outputs[place], "values": values[place]}
        for place, text in enumerate(found.steps)
    ]
    return answer({"model": model.name, "steps": steps})


async def weigh(service: Service, asked: Asked) -> Response:
    """How much each step matters to the prediction after the last one, found by leaving it out."""
    model = find_model(service.models, asked.body.get("model"))
    given = asked.body["input"]
    found: Importance = await _explain(model, weighing_steps(model.player, given, MOST_LEFT_OUT))
    values = [value if math.isfinite(value) else None for value in found.values.tolist()]
    told = {"measure": found.measure, "output": found.output}
    return answer({"model": model.name, **told, "steps": found.steps, "importance": values})


async def _explain(model: ServedModel, course: Generator[None, None, Any]) -> Any:
    """Let the model's worker explain, piece by piece."""
    return await model.batcher.run(Course(_reading(model, course)))


def _reading(model: ServedModel, course: Generator[None, None, Any]) -> Generator[None, None, Any]:
    """An explanation; an input of another kind than the model's is refused. What fails later is a mistake here."""
    try:
        next(course)
    except UnspoolError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, OverflowError, AttributeError) as error:
        message = f"The model {model.name}, of the task {model.player.task.name}, cannot read this input."
        raise unusable(message, "input") from error
    yield
    return (yield from course)
