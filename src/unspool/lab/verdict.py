"""Verdicts: a claim holds, does not hold, or is not decided, as its numbers say.

A number that is certain is compared with its limit: `at_most`, `at_least`. Numbers that differ from seed to seed are
judged by the 95 % confidence interval of their mean: `below`, `above`. The claim is decided only if the whole interval
is on one side of the threshold. `all_of` joins parts of a claim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from unspool.language import Message

Outcome = Literal["holds", "does not hold", "not decided"]
HOLDS: Outcome = "holds"
FAILS: Outcome = "does not hold"
UNDECIDED: Outcome = "not decided"
OUTCOMES = (HOLDS, FAILS, UNDECIDED)

#: The 97.5 % quantile of Student's t by degrees of freedom, from 1; beyond the list the last is used, which is larger
#: than the true one.
STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
#: A number as a chapter's results hold it: NaN is None in JSON, and infinity a text.
Number = float | str | None


@dataclass(frozen=True)
class Verdict:
    """What the numbers say about a claim.

    Attributes:
        outcome: `holds`, `does not hold` or `not decided`.
        reason: the comparison, in a sentence.
        margin: how far the number is on the claim's side of the threshold; negative on the other side.
        interval: the 95 % confidence interval of the number, if it varies between seeds.
    """

    outcome: Outcome
    reason: str
    margin: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % confidence interval."""

    mean: float
    low: float
    high: float


def at_most(what: str, value: Number, limit: float) -> Verdict:
    """Holds if a certain number is at most a limit; NaN does not hold.

    Args:
        what: the number in words, such as "largest difference".
        value: the number.
        limit: the largest value with which the claim holds.

    Example:
        >>> at_most("largest difference", 3e-13, 1e-12).outcome
        'holds'
    """
    found = as_float(value)
    outcome = HOLDS if found <= limit else FAILS
    sign = "≤" if outcome == HOLDS else "is not ≤"
    return Verdict(outcome, _compared(what, found, sign, limit), limit - found)


def at_least(what: str, value: Number, limit: float) -> Verdict:
    """Holds if a certain number is at least a limit; NaN does not hold.

    Example:
        >>> at_least("accuracy", 0.7, 0.9).outcome
        'does not hold'
    """
    found = as_float(value)
    outcome = HOLDS if found >= limit else FAILS
    sign = "≥" if outcome == HOLDS else "is not ≥"
    return Verdict(outcome, _compared(what, found, sign, limit), found - limit)


def above(what: str, values: Sequence[Number], threshold: float = 0.0) -> Verdict:
    """Holds if the mean over seeds is above a threshold, by its 95 % confidence interval.

    Args:
        what: the number in words.
        values: one per seed; differences, if the runs are paired.
        threshold: what the mean must exceed.

    Example:
        >>> above("difference of accuracies", [0.10, 0.12, 0.09]).outcome
        'holds'
        >>> above("difference of accuracies", [0.10, -0.12, 0.09]).outcome
        'not decided'
    """
    found = interval_of(values)
    outcome = HOLDS if found.low > threshold else FAILS if found.high < threshold else UNDECIDED
    return _judged(what, found, threshold, outcome, ">", found.mean - threshold)


def below(what: str, values: Sequence[Number], threshold: float = 0.0) -> Verdict:
    """Holds if the mean over seeds is below a threshold, by its 95 % confidence interval; see `above`.

    Example:
        >>> below("mean squared error", [0.01, 0.02, 0.01], 0.1).outcome
        'holds'
    """
    found = interval_of(values)
    outcome = HOLDS if found.high < threshold else FAILS if found.low > threshold else UNDECIDED
    return _judged(what, found, threshold, outcome, "<", threshold - found.mean)


def all_of(*verdicts: Verdict) -> Verdict:
    """Holds if every part does; does not hold if any part does not.

    The reason is that of the parts that decide; the margin and the interval are those of the first of them.

    Example:
        >>> all_of(at_most("a", 1, 2), at_most("b", 3, 2)).outcome
        'does not hold'
    """
    outcomes = [verdict.outcome for verdict in verdicts]
    outcome = next((worst for worst in (FAILS, UNDECIDED) if worst in outcomes), HOLDS)
    deciding = [verdict for verdict in verdicts if verdict.outcome == outcome]
    reason: str = deciding[0].reason
    for verdict in deciding[1:]:
        reason = Message("{one}; {other}", one=reason, other=verdict.reason)
    return Verdict(outcome, reason, deciding[0].margin, deciding[0].interval)


def interval_of(values: Sequence[Number]) -> Interval:
    """The mean and its 95 % confidence interval by Student's t; infinitely wide for a single value.

    Example:
        >>> interval_of([1.0, 1.0, 1.0])
        Interval(mean=1.0, low=1.0, high=1.0)
    """
    found = [as_float(value) for value in values]
    count = len(found)
    if not count or not all(map(math.isfinite, found)):
        return Interval(math.nan, -math.inf, math.inf)
    mean = math.fsum(found) / count
    if count < 2:
        return Interval(mean, -math.inf, math.inf)
    deviation = math.sqrt(math.fsum((value - mean) * (value - mean) for value in found) / (count - 1))
    half = STUDENT[min(count - 1, len(STUDENT)) - 1] * deviation / math.sqrt(count)
    return Interval(mean, mean - half, mean + half)


def as_float(value: Number) -> float:
    """A number of a chapter's results; None is NaN."""
    return math.nan if value is None else float(value)


def _compared(what: str, value: float, sign: str, limit: float) -> str:
    template = f"{{what}}: {{value:.3g}} {sign} {{limit:.3g}}"
    return Message(template, what=_nested(what), value=value, limit=limit)


def _judged(what: str, found: Interval, threshold: float, outcome: Outcome, sign: str, margin: float) -> Verdict:
    ends = {"mean": found.mean, "low": found.low, "high": found.high, "threshold": threshold}
    templates = {
        HOLDS: f"{{what}}: {{mean:.3g}} [{{low:.3g}}, {{high:.3g}}] {sign} {{threshold:.3g}}",
        FAILS: f"{{what}}: {{mean:.3g}} [{{low:.3g}}, {{high:.3g}}] is not {sign} {{threshold:.3g}}",
        UNDECIDED: "{what}: {mean:.3g} [{low:.3g}, {high:.3g}] includes {threshold:.3g}",
    }
    if math.isnan(found.mean):
        return Verdict(outcome, Message("{what}: a run has no finite number", what=_nested(what)), margin)
    reason = Message(templates[outcome], what=_nested(what), **ends)
    return Verdict(outcome, reason, margin, (found.low, found.high))


def _nested(text: str) -> Message:
    """A text that is translated where it stands inside another."""
    return text if isinstance(text, Message) else Message(text.replace("{", "{{").replace("}", "}}"))
