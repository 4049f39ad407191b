"""Fixed points in the report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from unspool.insight.figures.fixed_points import draw_eigenvalues, draw_modes, draw_phase_portrait
from unspool.insight.measure import Measure
from unspool.insight.measures.fixed_points import FixedPoints, PointSet, measure_fixed_points
from unspool.insight.report.contract import Section
from unspool.insight.sections.formula import formula, frac, norm, row, sup
from unspool.language import Message, listed, words

_FIGURES = (draw_phase_portrait, draw_eigenvalues, draw_modes)


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
        lambda: tuple(figure for draw in _FIGURES if (figure := draw(found)).data),  # what is missing, the findings say
        tuple(_findings(found)),
    )


def _findings(found: FixedPoints) -> Iterator[str]:
    sets = [one for portrait in found.portraits for one in found.of(portrait)]
    for one in sets:
        yield from _of_set(one)
    if sets:
        yield _tell_search(sets)
    far = sum(one.far for one in sets)
    if far:
        yield Message(
            "{count} start(s) of the solver arrived where no state comes; these points are left out.", count=far
        )
    for why in dict.fromkeys(portrait.alone for portrait in found.portraits if portrait.alone):
        alike = [portrait.label for portrait in found.portraits if portrait.alone == why]
        yield Message("{label}: searched apart from other layers, since {why}.", label=listed(alike), why=words(why))


def _of_set(one: PointSet) -> Iterator[str]:
    label = Message("{label}, {held}", label=one.label, held=one.held)
    slowest = _slowest(one)
    if slowest is None:
        yield Message("{label}: {points}", label=label, points=_count(one))
    else:
        yield Message(
            "{label}: {points} The slowest time constant at a stable one is {tau:.3g} {time}.",
            label=label,
            points=_count(one),
            tau=slowest,
            time=words("step(s)" if one.dt == 1 else "units of time"),
        )
    for continuum in one.continua:
        yield Message(
            "{label}: {count} start(s) arrived at a {kind}, and not at single points.",
            label=label,
            count=continuum.points,
            kind=words(continuum.kind),
        )
    yield from _tell_fates(one, label)


#: What is said of so many points of a kind.
_KINDS = {
    "stable": "{count} stable",
    "saddle": "{count} saddle",
    "unstable": "{count} unstable",
    "slow": "{count} slow",
}


def _count(one: PointSet) -> str:
    if not one.kind:
        return words("no fixed or slow point was found.")
    counted = [(text, one.kind.count(kind)) for kind, text in _KINDS.items()]
    unknown = one.kind.count("unknown")
    kinds = listed([Message(text, count=count) for text, count in counted if count])
    counts = Message("{kinds} point(s).", kinds=kinds)
    if not unknown:
        return counts
    text = "{unknown} point(s) where the Jacobian is not finite: whether they are stable is not known."
    told = Message(text, unknown=unknown)
    return told if unknown == len(one.kind) else Message("{counts} {told}", counts=counts, told=told)


def _tell_search(sets: Sequence[PointSet]) -> str:
    """How the searches went, all together: each with its own input held."""
    made = {"starts": sum(one.starts for one in sets), "evaluations": sum(one.evaluations for one in sets)}
    ended = Message("The search made {starts} starts and {evaluations:,} evaluations;", **made)
    stopped = [one.held for one in sets if one.stopped == "budget"]
    if stopped:
        text = "The search made {starts} starts and {evaluations:,} evaluations, and stopped at its limit for {held};"
        ended = Message(text, held=listed(list(dict.fromkeys(stopped))), **made)
    fraction = min(one.recall.fraction for one in sets)
    if any(math.isnan(one.recall.fraction) for one in sets):
        told: str = words("what it missed cannot be estimated.")
    elif fraction > 0.995:
        told = words("by estimate it found all points.")
    elif len(sets) > 1:
        told = Message("by estimate it found at least {fraction:.0%} of all points for each input.", fraction=fraction)
    else:
        told = Message("by estimate it found {fraction:.0%} of all points.", fraction=fraction)
    return Message("{ended} {told}", ended=ended, told=told)


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
