"""What is measured in training: metrics and a sample, and divergence where a metric that counts is not finite."""

from __future__ import annotations

import math

import pytest
from tests.learning.toy_task import Slope, Toy

from unspool.errors import DivergenceError
from unspool.learning.evaluation import measure, measure_best, merit
from unspool.settings.training import Training
from unspool.tasks.divergence import refuse_nonfinite


def test_metrics_come_with_a_sample() -> None:
    assert measure(Toy([1.0], [2.0]), Slope(), Training()) == ({"loss": 2.0}, "w = 0")
    assert measure_best(Toy([1.0], [2.0]), Slope(), 0) == ({"loss": 2.0}, {}, "w = 0")


def test_less_is_better_after_a_change_of_sign() -> None:
    task = Toy([1.0])
    assert merit(task, {"loss": 2.0}) == 2.0
    task.chosen_by, task.more_is_better = "accuracy", True
    assert merit(task, {"loss": 2.0, "accuracy": 0.75}) == -0.75
    assert math.isnan(merit(task, {"loss": 2.0}))


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_divergence(loss: float) -> None:
    for call in (lambda task: measure(task, Slope(), Training()), lambda task: measure_best(task, Slope(), 0)):
        with pytest.raises(DivergenceError, match="^the validation loss is not finite$"):
            call(Toy([1.0], [loss]))


def test_the_loss_is_named_before_other_metrics_and_those_that_do_not_count_may_be_infinite() -> None:
    refuse_nonfinite("test", {"loss": 1.0, "perplexity": math.inf})
    with pytest.raises(DivergenceError, match="the test loss"):
        refuse_nonfinite("test", {"accuracy": math.nan, "loss": math.nan}, ("accuracy", "loss"))
    with pytest.raises(DivergenceError, match="the test accuracy"):
        refuse_nonfinite("test", {"accuracy": math.nan, "loss": 1.0}, ("accuracy", "loss"))
