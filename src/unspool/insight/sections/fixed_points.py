"""Fixed points in the report."""

from __future__ import annotations

from unspool.insight.figures.dynamics import draw_eigenvalues, draw_phase_portrait
from unspool.insight.measure import Measure
from unspool.insight.measures.fixed_points import FixedPoints, PointSet, measure_fixed_points
from unspool.insight.report.contract import Section
from unspool.insight.sections.formula import formula, frac, norm, sup
from unspool.language import Message


def tell(found: FixedPoints) -> Section:
    """Where the state settles."""
    return Section(
        "fixed_points",
        "Where the state settles",
        "Which states does the network move towards?",
        "With a constant input, a network moves towards states that no longer change, or drifts slowly along others. "
        "These states are its memories. The plane shows the two directions in which states vary most, with the paths "
        "that the data took. A fixed point is stable if all eigenvalues of its Jacobian are inside the unit circle. An "
        "eigenvalue outside drives the state away; one near the circle moves it slowly, which is memory.",
        formula(
            sup("h", "∗"), "= F(", sup("h", "∗"), ", mean x)", ",", "q(h) =", frac("1", "2"), sup(norm("F(h) - h"), "2")
        ),
        lambda: (draw_phase_portrait(found), draw_eigenvalues(found)),
        tuple(map(_finding, found.sets)),
    )


def _finding(one: PointSet) -> str:
    return Message(
        "{label}: {stable} stable, {unstable} unstable and {slow} slow point(s) at the mean input.",
        label=one.label,
        stable=int(one.stable.sum()),
        unstable=int((~one.stable & ~one.slow).sum()),
        slow=int(one.slow.sum()),
    )


FIXED_POINTS = Measure(
    key="fixed_points",
    weight=5,
    measure=lambda specimen: measure_fixed_points(specimen.recording),
    tell=tell,
)
