"""Advice on histories made to be sick in one way, or healthy."""

from __future__ import annotations

import math
import random
import re

import pytest

from unspool.learning.advice import Point, advise
from unspool.settings.catalogue import SETTINGS


def course(training: list[float], validation: list[float]) -> list[Point]:
    return [Point(100 * (k + 1), t, v) for k, (t, v) in enumerate(zip(training, validation, strict=True))]


def healthy(count: int, noise: float = 0.0, seed: int = 0) -> list[Point]:
    """Losses that fall to a level, with a gap of generalisation that grows to 0.15 nats."""
    draw = random.Random(seed)
    return [
        Point(
            100 * (k + 1),
            (1.2 + 3 * math.exp(-k / 2)) * (1 + draw.gauss(0, noise)),
            (1.35 + 2.9 * math.exp(-k / 2)) * (1 + draw.gauss(0, noise)),
        )
        for k in range(count)
    ]


def noisy(history: list[Point], noise: float, seed: int) -> list[Point]:
    draw = random.Random(seed)
    return [
        Point(p.step, p.training * (1 + draw.gauss(0, noise)), p.validation * (1 + draw.gauss(0, noise)))
        for p in history
    ]


OVERFITTED = course([3.0, 2.0, 1.5, 1.2, 0.9, 0.7], [3.1, 2.2, 1.9, 1.95, 2.05, 2.2])
UNDERFITTED = course([4.0, 3.5, 3.2, 3.0, 2.85], [4.02, 3.53, 3.24, 3.05, 2.91])
DIVERGED = course([4.0, 2.5, 2.0, 2.4, 5.0], [4.0, 2.6, 2.1, 2.5, 5.2])
STALLED = course([4.61, 4.60, 4.61, 4.605, 4.60], [4.61, 4.61, 4.6, 4.6, 4.61])


def say(history: list[Point]) -> str:
    """The advice that there must be."""
    found = advise(history)
    assert found is not None
    return found


def test_overfitting() -> None:
    found = say(OVERFITTED)
    assert found.startswith("Overfitting")
    assert "step 300 (1.900)" in found
    assert "risen to 2.200" in found
    assert "from 1.500 to 0.700" in found
    assert all(
        option in found for option in ("`dropout=0.3`", "shorter training", "`patience`", "`hidden`", "more data")
    )
    assert "Overfitting" in (advise(OVERFITTED, fraction=0.2) or "")


def test_underfitting_near_the_end_only() -> None:
    found = say(UNDERFITTED)
    assert found.startswith("Underfitting: training loss (2.850) and validation loss (2.910)")
    assert all(option in found for option in ("longer", "`hidden`", "`lr`"))
    assert advise(UNDERFITTED, fraction=0.5) is None
    assert advise(UNDERFITTED, fraction=0.9) == found


def test_divergence() -> None:
    found = say(DIVERGED)
    assert found.startswith("Diverging: training loss rose from 2.000 at step 300 to 5.000")
    assert "`lr`" in found
    assert "`clip=1`" in found
    assert "Diverging" in (advise(course([4.6, 7.0], [4.6, 7.1])) or "")  # from the very start


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_losses_that_are_not_finite(value: float) -> None:
    found = say(course([2.0, value], [2.0, 2.0]))
    assert found.startswith("Diverged: the loss is no longer a finite number at step 200")
    assert "Diverged" in (advise(course([2.0], [value])) or "")


def test_what_falls_slowly_has_not_stalled() -> None:
    assert advise(course([4.551, 4.514, 4.488, 4.469], [4.55, 4.52, 4.49, 4.47]), fraction=0.4) is None


def test_stalled() -> None:
    found = say(STALLED)
    assert found.startswith("Stalled: training loss has been at 4.610 since step 100")
    assert "`lr`" in found
    last = STALLED[-1]
    assert (
        advise([*STALLED, Point(last.step + 100, 4.605, 4.605)]) == found
    )  # the same words, so that they are said once
    assert advise(STALLED[:3]) is None  # warm-up, perhaps
    assert advise(course([0.002] * 9, [0.002] * 9)) is None  # nothing is left to learn


def test_too_short_to_tell() -> None:
    assert advise([]) is None
    assert advise(OVERFITTED[:1]) is None
    assert advise(UNDERFITTED[:2]) is None


@pytest.mark.parametrize("count", [3, 8, 40])
def test_healthy(count: int) -> None:
    assert advise(healthy(count), fraction=min(1.0, count / 40)) is None


def test_what_passes() -> None:
    assert advise(OVERFITTED[:4]) is None  # one evaluation above the best
    spike = course([3.0, 2.0, 4.0, 1.8, 1.7, 1.7], [3.1, 2.2, 4.1, 2.1, 2.05, 2.04])
    assert advise(spike) is None  # it has recovered
    both = course([2.0, 1.5, 1.6, 1.62], [2.2, 1.8, 1.87, 1.88])
    assert advise(both) is None  # validation rose, but so did training: the data are harder there
    level = course([2.0, 1.5, 1.499, 1.498], [2.0, 1.52, 1.519, 1.519])
    assert advise(level) is None  # close, but no longer falling
    tiny = course([1.0, 0.01, 0.002, 0.009], [1.0, 0.01, 0.004, 0.012])
    assert advise(tiny) is None  # four times as high, and still nothing


@pytest.mark.parametrize("seed", range(40))
def test_noise_triggers_nothing(seed: int) -> None:
    history = healthy(40, noise=0.004, seed=seed)
    for end in range(1, 41):
        assert advise(history[:end], fraction=end / 40) is None


@pytest.mark.parametrize("seed", range(20))
def test_noise_hides_nothing(seed: int) -> None:
    for history, word in (
        (OVERFITTED, "Overfitting"),
        (UNDERFITTED, "Underfitting"),
        (DIVERGED, "Diverging"),
        (STALLED, "Stalled"),
    ):
        assert (advise(noisy(history, 0.003, seed)) or "").startswith(word)


def test_advice_names_settings_and_no_options_of_a_command() -> None:
    for history in (OVERFITTED, UNDERFITTED, DIVERGED, STALLED):
        text = advise(history) or ""
        named = re.findall(r"`(\w+)(?:=[^`]*)?`", text)
        assert named
        assert set(named) <= SETTINGS.keys()
        assert "--" not in text
