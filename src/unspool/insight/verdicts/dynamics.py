"""Rules about the states' own motion: chaos."""

from __future__ import annotations

import numpy as np

from unspool.insight.report.contract import Verdict
from unspool.insight.verdicts.rules import Case

#: Nats a step by which nearby states part: a network that keeps its state well is near 0 on either side of it, and over
#: the steps of a recording its exponent is known to about 0.03.
CHAOS = 0.05
#: States that grow by more than this from the first half to the second are running away, which is not chaos.
RUNNING_AWAY = 4.0


def chaotic(case: Case) -> Verdict | None:
    """States that are bounded, and in which every small difference grows."""
    found = case.found.lyapunov
    if found is None or not is_chaotic(case):
        return None
    worst = int(np.nanargmax(found.largest))
    exponent = float(found.largest[worst])
    evidence = (
        f"In {found.labels[worst]} two states that hardly differ part by a factor of {np.exp(exponent):.2f} at each "
        f"step (largest Lyapunov exponent {exponent:+.3f}), while the states stay bounded: after "
        f"{max(1, round(np.log(100) / exponent))} steps a difference is a hundred times as large. What the network "
        "remembers is drowned, and gradients grow as fast."
    )
    remedy = (
        "Begin with orthogonal recurrent matrices, or with smaller ones; a little weight decay keeps them so. A gated "
        "cell (lstm, gru) is harder to drive into chaos."
    )
    command = case.command("--initial", "orthogonal", "--set", "weight_decay=0.01")
    return Verdict("chaotic", "fault", "The network is chaotic", evidence, remedy, command, "lyapunov")


def is_chaotic(case: Case) -> bool:
    """Whether nearby states part although all states stay within bounds."""
    found = case.found.lyapunov
    if found is None:
        return False
    for exponent, unit in zip(found.largest, case.specimen.recording.units, strict=True):
        if not exponent > CHAOS:
            continue
        sizes = np.where(unit.live.numpy(), np.linalg.norm(unit.after.numpy(), axis=-1), np.nan)
        middle = len(sizes) // 2
        early, late = (np.nanmedian(part) if np.isfinite(part).any() else np.nan for part in np.split(sizes, [middle]))
        grown = early / late if unit.reverse else late / early
        if not grown > RUNNING_AWAY:
            return True
    return False
