"""Results that are not finite: they are refused, and the message says whose model has diverged and what to change."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path

from unspool.errors import DivergenceError

#: What to change where a model has diverged.
REMEDY = "Lower `lr`, or clip gradients with `clip=1`"


def refuse_nonfinite(part: str, metrics: Mapping[str, float], names: Collection[str] = ("loss",)) -> None:
    """Refuse metrics on a part of the data where one of these is there and is not finite.

    Raises:
        DivergenceError: The message names the metric; who knows the model adds where it comes from.
    """
    for name in sorted({*names} & metrics.keys(), key=("loss").__ne__):  # which explains other metrics
        if not math.isfinite(metrics[name]):
            raise DivergenceError(f"the {part} {name} is not finite")


def diverged(model: Path, step: object, fault: object) -> DivergenceError:
    """The error of a trained model that cannot be used.

    Args:
        model: The file of its weights.
        step: The step of training that they are of.
        fault: What is not finite, in words.

    Example:
        >>> str(diverged(Path("runs/book/model.safetensors"), 40, "the loss is not finite"))[:63]
        'runs/book/model.safetensors has diverged, at step 40 or before:'
    """
    return DivergenceError(f"{model} has diverged, at step {step} or before: {fault}. {REMEDY}, and train again.")
