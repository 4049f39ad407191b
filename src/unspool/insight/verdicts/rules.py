"""What a rule judges, and the few helpers that several rules share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspool.insight.measurements import Measurements
from unspool.insight.measures.need import Need
from unspool.insight.report.contract import Verdict
from unspool.insight.specimen import Specimen


class Case(NamedTuple):
    """What a rule judges."""

    specimen: Specimen
    found: Measurements

    @property
    def steps(self) -> int:
        """Length of the longest sequence that any layer read."""
        return max(int(layer.live.sum(0).max()) for layer in self.specimen.recording.layers)

    @property
    def need(self) -> Need | None:
        """What the loss needs of earlier inputs; None if that is not known."""
        found = self.found.get(Need)
        return found if found is not None and found.known else None

    @property
    def gated(self) -> bool:
        """Whether every layer has gates that keep its state."""
        return all(layer.cell.keeps for layer in self.specimen.recording.layers)


#: The verdict of one rule; None if it has nothing to say.
Rule = Callable[[Case], Verdict | None]


def percent(fraction: float) -> str:
    """A fraction as a percentage, with one significant digit below 10 %."""
    return f"{100 * fraction:.0f} %" if fraction >= 0.1 or fraction == 0 else f"{100 * fraction:.1g} %"


def finite_max(values: NDArray[np.float64]) -> float:
    """The largest finite value; NaN if there is none."""
    known = values[np.isfinite(values)]
    return float(known.max()) if known.size else float("nan")
