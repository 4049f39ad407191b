"""When training ends, and when evaluations and checkpoints are due, by hand."""

from __future__ import annotations

import random
from typing import Any

import pytest

from unspool.learning.position import Position
from unspool.learning.timetable import CHECKPOINT_SECONDS, Timetable, has_stalled
from unspool.settings.training import Training


def table(updates: int = 20, **settings: Any) -> Timetable:
    return Timetable(Training(**settings), updates)


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({}, 20),
        ({"epochs": 2.5}, 50),
        ({"epochs": 0.001}, 1),
        ({"steps": 7}, 7),
        ({"minutes": 3.0}, None),
    ],
)
def test_the_number_of_updates(settings: dict[str, Any], steps: int | None) -> None:
    assert table(**settings).steps == steps


def test_the_fraction_is_of_updates_or_of_time() -> None:
    assert table(epochs=2.0).fraction(10, 1e6) == 0.25
    assert table(minutes=2.0).fraction(1000, 30.0) == 0.25
    assert table(minutes=2.0).fraction(1000, 180.0) == 1.5


def test_training_ends_when_it_is_done_or_stale() -> None:
    position = Position(step=19, training=[1.0] * 4, validation=[1.0] * 4, evaluated=[2, 4, 6, 8], best_step=4)
    assert position.stale == 2
    assert table().reason_to_end(position, 0.0) == ""
    assert table(patience=3).reason_to_end(position, 0.0) == ""
    assert table(patience=2).reason_to_end(position, 0.0) == "stopped early"
    position.step = 20
    assert table().reason_to_end(position, 0.0) == "done"
    assert table(patience=2).reason_to_end(position, 0.0) == "stopped early"


def due(timetable: Timetable, updates: int, seconds: float = 0.0) -> list[int]:
    """The steps, of so many, after which an evaluation is due; an update takes so many seconds."""
    found = []
    for step in range(1, updates + 1):
        before, now = (timetable.fraction(count, count * seconds) for count in (step - 1, step))
        if timetable.evaluation_is_due(Position(step=step, batch=step % 5), before, now):
            found.append(step)
    return found


def test_evaluations() -> None:
    assert due(table(eval_every=6), 20) == [6, 12, 18]
    assert due(table(steps=40), 40) == list(range(4, 41, 4))
    assert due(table(steps=3), 3) == [1, 2, 3]
    assert due(table(epochs=2.0, schedule="plateau"), 20) == [5, 10, 15, 20]  # when a batch is an epoch's first
    assert due(table(epochs=2.0, swa_start="plateau"), 20) == [5, 10, 15, 20]
    assert due(table(minutes=1.0), 12, seconds=5.0) == [2, 3, 4, 5, 6, 8, 9, 10, 11, 12]  # past each tenth of a minute


def test_checkpoints() -> None:
    assert [step for step in range(1, 10) if table(checkpoint_every=4).checkpoint_is_due(step, 1e6)] == [4, 8]
    assert not table().checkpoint_is_due(4, CHECKPOINT_SECONDS)
    assert table().checkpoint_is_due(4, CHECKPOINT_SECONDS + 1)


def test_when_weights_are_averaged() -> None:
    stalled, improving = [2.5, 4.0, 3.0, 2.9, 2.8, 2.7, 2.6], [5.0, 4.0, 3.0, 2.9, 2.8, 2.7, 2.6]
    assert table(average="ema").average_is_due(0.0, [])
    assert [table(average="swa").average_is_due(fraction, stalled) for fraction in (0.49, 0.5)] == [False, True]
    plateau = table(average="swa", swa_start="plateau")
    assert [plateau.average_is_due(0.9, losses) for losses in ([], improving, stalled)] == [False, False, True]


@pytest.mark.parametrize("seed", range(20))
def test_the_trigger_is_that_of_nt_asgd(seed: int) -> None:
    """Merity et al. (2017), algorithm 1, with n = 5: v is above the least of all but the last n logs."""
    chance = random.Random(seed)
    losses = [1 / (1 + t) + chance.uniform(0, 0.3) for t in range(40)]
    logs: list[float] = []
    triggered: list[bool] = []
    for v in losses:
        triggered.append(any(triggered) or (len(logs) > 5 and v > min(logs[:-5])))
        logs.append(v)
    assert [has_stalled(losses[: t + 1]) for t in range(40)] == triggered
    assert any(triggered)
