"""Fixed points in the report."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from unspool.insight.figures.fixed_points import draw_eigenvalues, draw_modes, draw_phase_portrait
from unspool.insight.measure import Measure
from unspool.insight.measures.fixed_points import FixedPoints, PointSet, measure_fixed_points
from unspool.insight.report.contract import Section
from unspool.insight.sections.formula import formula, frac, norm, row, sup
from unspool.language import Message, listed, words


def tell(found: FixedPoints) -> Section:
    """Where the state settles."""
    return Section(
        "fixed_points",
        "Where the state settles",
        "Which states does the network move towards?",
        "With a constant input, a network moves towards states that no longer change, or drifts slowly along others. "
        "These states are its memories. Stacked layers move together, so the points are those of the joint state of "
        "all of them. The plane shows the two directions in which states vary most, with the paths that the data took. "
        "A fixed point is stable if all eigenvalues of its joint Jacobian are inside the unit circle. An eigenvalue "
        "outside drives the state away; one near the circle moves it slowly, which is memory: each eigenvalue is a "
        "mode with the time constant τ = −Δt / ln|λ|. Point at a mark to see which marks belong to the same point.\n\n"
        "Starts are drawn until the points that were reached only once say that nothing new is expected. The share "
        "that was found is an estimate by this count (Chao's). It cannot know points that no start leads to.",
        formula(
            sup("s", "∗"),
            "=",
            row("F(", sup("s", "∗"), ", x)"),
            ",",
            row("q(s)"),
            "=",
            frac("1", "2"),
            sup(norm("F(s) - s"), "2"),
        ),
        lambda: (draw_phase_portrait(found), draw_eigenvalues(found), draw_modes(found)),
        tuple(_findings(found)),
    )


def _findings(found: FixedPoints) -> Iterator[str]:
    for portrait in found.portraits:
        for one in found.of(portrait):
            yield from _of_set(one)
    for why in dict.fromkeys(portrait.alone for portrait in found.portraits if portrait.alone):
        alike = [portrait.label for portrait in found.portraits if portrait.alone == why]
        yield Message("{label} is searched by itself: {why}.", label=listed(alike), why=words(why))


def _of_set(one: PointSet) -> Iterator[str]:
    label = Message("{label}, {held}", label=one.label, held=one.held)
    yield Message("{label}: {points} {search}", label=label, points=_count(one), search=_tell_search(one))
    for continuum in one.continua:
        yield Message(
            "{label}: {count} start(s) arrived at a {kind}, and not at single points.",
            label=label,
            count=continuum.points,
            kind=words(continuum.kind),
        )
    yield from _tell_fates(one, label)
    slowest = _slowest(one)
    if slowest is not None:
        yield Message(
            "{label}: the slowest mode at a stable point has the time constant {tau:.3g} {time}.",
            label=label,
            tau=slowest,
            time=words("step(s)" if one.dt == 1 else "units of time"),
        )


def _count(one: PointSet) -> str:
    if not one.kind:
        return words("no fixed or slow point was found.")
    counts = Message(
        "{stable} stable, {saddle} saddle, {unstable} unstable and {slow} slow point(s).",
        **{kind: one.kind.count(kind) for kind in ("stable", "saddle", "unstable", "slow")},
    )
    if "unknown" not in one.kind:
        return counts
    text = "{counts} {unknown} point(s) where the Jacobian is not finite: whether they are stable is not known."
    return Message(text, counts=counts, unknown=one.kind.count("unknown"))


def _tell_search(one: PointSet) -> str:
    made = {"starts": one.starts, "evaluations": one.evaluations}
    if one.stopped == "budget":
        ended = "The search stopped at its limit of {evaluations:,} evaluations, after {starts} starts;"
    else:
        ended = "The search made {starts} starts and {evaluations:,} evaluations;"
    fraction = one.recall.fraction
    if math.isnan(fraction):
        told: str = words("what it missed cannot be estimated.")
    else:
        told = Message("by estimate it found {fraction:.0%} of all points.", fraction=fraction)
    return Message("{ended} {told}", ended=Message(ended, **made), told=told)


def _tell_fates(one: PointSet, label: str) -> Iterator[str]:
    fates = one.fates
    every = fates.settled + fates.cycling + fates.moving + fates.escaped
    if fates.cycling:
        yield Message(
            "{label}: {count} of {every} paths end in a cycle of about {period:.0f} steps, and not in a point.",
            label=label,
            count=fates.cycling,
            every=every,
            period=fates.period,
        )
    for count, template in (
        (fates.moving, "{label}: {count} of {every} paths still move after {steps} steps, without a period."),
        (fates.escaped, "{label}: {count} of {every} paths run away: their states grow without bound."),
        (one.far, "{label}: {count} start(s) of the solver arrived where no state comes; these points are left out."),
    ):
        if count:
            yield Message(template, label=label, count=count, every=every, steps=fates.steps)


def _slowest(one: PointSet) -> float | None:
    """The longest time constant at a stable point."""
    tau = one.time_constants[np.array(one.kind) == "stable"]
    longest = float(tau.max()) if tau.size else 0.0
    return longest if 0 < longest < math.inf else None


FIXED_POINTS = Measure(
    key="fixed_points",
    weight=5,
    measure=lambda specimen: measure_fixed_points(specimen.recording, tokens=specimen.tokens),
    tell=tell,
)
