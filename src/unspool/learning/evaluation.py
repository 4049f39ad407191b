"""What is measured of a model in training: metrics, by which the best one is chosen, and a sample for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from unspool.errors import DivergenceError
from unspool.learning.contract import Learner
from unspool.learning.nonfinite import NUMERIC, find_absurd_loss, refuse_huge_weights
from unspool.tasks.contract import Task
from unspool.tasks.divergence import refuse_nonfinite

if TYPE_CHECKING:
    from unspool.settings.training import Training

#: The batch size of evaluations during training.
BATCH_SIZE = 16


def measure(
    task: Task, learner: Learner, settings: Training, first: float | None = None
) -> tuple[dict[str, float], str]:
    """Metrics on validation data, or on `eval_limit` units of it, and a sample.

    Args:
        task: Evaluates and samples.
        learner: The model.
        settings: Section [training] of the config.
        first: The first validation loss of the run, or, before there is one, the first training loss.

    Raises:
        DivergenceError: The loss, or the metric by which the best model is chosen, is not finite; or the loss, or a
            weight, is too large.
    """
    try:
        metrics = task.evaluate(learner, "validation", BATCH_SIZE, settings.eval_limit)
    except NUMERIC:  # a sum of outputs may overflow though each of them is finite
        refuse_huge_weights(learner)
        raise
    refuse_nonfinite("validation", metrics, {"loss", task.chosen_by})
    refuse_huge_weights(learner)
    if fault := find_absurd_loss(metrics.get("loss", 0.0), first, "validation loss"):
        raise DivergenceError(fault)
    return metrics, task.sample(learner, settings.seed)


def measure_best(task: Task, learner: Learner, seed: int) -> tuple[dict[str, float], dict[str, float], str]:
    """Metrics on all validation data and on all test data, and a sample; refused where a loss is not finite."""
    validation, test = task.evaluate(learner, "validation"), task.evaluate(learner, "test")
    refuse_nonfinite("validation", validation)
    refuse_nonfinite("test", test)
    return validation, test, task.sample(learner, seed)


def merit(task: Task, metrics: Mapping[str, float]) -> float:
    """What the best model has least of; NaN where it is not measured."""
    return metrics.get(task.chosen_by, math.nan) * (-1 if task.more_is_better else 1)
