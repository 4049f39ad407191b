"""Measurements: the numbers of all measures of one specimen, and what could not be measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from unspool.errors import UnspoolError
from unspool.insight.measure import Measure
from unspool.insight.specimen import Specimen
from unspool.language import Message, listed, words

Numbers = TypeVar("Numbers")


@dataclass(frozen=True, eq=False)
class Measurements:
    """What was measured, by the key of the measure; `missing` says what could not be, and why."""

    values: Mapping[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def get(self, kind: type[Numbers]) -> Numbers | None:
        """The numbers of one type, such as `GradientFlow`; None if they were not measured."""
        return next((value for value in self.values.values() if isinstance(value, kind)), None)


def take_measurements(
    specimen: Specimen,
    measures: Sequence[Measure[Any]],
    progress: Callable[[str], None] = lambda _: None,
    only: Collection[str] | None = None,
) -> Measurements:
    """The numbers of all measures that apply to a specimen.

    Args:
        specimen: the recorded model.
        measures: what to measure.
        progress: called as each measure begins, with its name, its place and about how long the rest takes.
        only: keys of the measures to take; by default all.

    Returns:
        The numbers, and what could not be measured.
    """
    values: dict[str, Any] = {}
    missing = list(specimen.missing)
    failed: dict[str, list[str]] = {}  # by the error, so that each is told once
    chosen = [one for one in measures if (only is None or one.key in only) and one.applies(specimen)]
    begun = time.perf_counter()
    for place, one in enumerate(chosen):
        progress(_say(chosen, place, time.perf_counter() - begun))
        try:
            values[one.key] = one.measure(specimen)
        except (UnspoolError, np.linalg.LinAlgError, RuntimeError) as error:
            failed.setdefault(str(error), []).append(words(one.title))
    missing += [Message("{measure}: {error}", measure=listed(names), error=error) for error, names in failed.items()]
    return Measurements(values, tuple(missing))


def _say(chosen: Sequence[Measure[Any]], place: int, elapsed: float) -> str:
    """What begins, and about how long it and the rest take, by how long the ones before took."""
    known = {"measure": words(chosen[place].title), "place": place + 1, "count": len(chosen)}
    done = sum(one.weight for one in chosen[:place])
    if not done:
        return Message("{measure} ({place} of {count})", **known)
    left = elapsed / done * sum(one.weight for one in chosen[place:])
    return Message("{measure} ({place} of {count}, about {seconds} s left)", **known, seconds=max(1, round(left)))
