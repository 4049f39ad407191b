"""A rule's material, and the few words that several rules share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspool.insight.measurements import Measurements
from unspool.insight.report.contract import Verdict
from unspool.insight.specimen import Specimen


class Case(NamedTuple):
    """What a rule judges."""

    specimen: Specimen
    found: Measurements

    def command(self, *options: str) -> str | None:
        """The run's command with other options; None where no run is known."""
        retrain = self.specimen.retrain
        return None if retrain is None else " ".join((retrain, *options))

    @property
    def steps(self) -> int:
        """Of the longest sequence that any unit read."""
        return max(int(unit.live.sum(0).max()) for unit in self.specimen.recording.units)

    @property
    def gated(self) -> bool:
        """Whether every unit has gates that keep its state."""
        return all(unit.cell.keeps for unit in self.specimen.recording.units)


Rule = Callable[[Case], Verdict | None]


def percent(share: float) -> str:
    """A share for people."""
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.1g} %"


def finite_max(values: NDArray[np.float64]) -> float:
    """The largest of the numbers that are numbers; NaN where there is none."""
    known = values[np.isfinite(values)]
    return float(known.max()) if known.size else float("nan")
