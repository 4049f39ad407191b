"""Sections about the motion of states: Jacobians, Lyapunov exponents, fixed points, frequencies, sensitivity."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.dynamics import draw_eigenvalues, draw_lyapunov, draw_phase_portrait
from unspool.insight.figures.frequency import draw_bode
from unspool.insight.figures.jacobians import draw_lag_bands, draw_step_bands
from unspool.insight.figures.memory import draw_forgetting, draw_sensitivity
from unspool.insight.measures.fixed_points import FixedPoints
from unspool.insight.measures.forgetting import Forgetting
from unspool.insight.measures.frequency import Frequency
from unspool.insight.measures.jacobians import Jacobians
from unspool.insight.measures.lyapunov import Lyapunov
from unspool.insight.measures.sensitivity import Sensitivity
from unspool.insight.report.contract import Section
from unspool.insight.sections.mathml import both, formula, frac, norm, product, root, row, sub, sup, total
from unspool.insight.verdicts.dynamics import CHAOS


def tell_forgetting(found: Forgetting) -> Section:
    """How long the states tell two pasts apart."""
    findings = []
    for label, horizon, censored, distance in zip(
        found.labels, found.horizon, found.censored, found.distance, strict=True
    ):
        if np.isfinite(distance).any():
            least = "at least " if censored else ""
            findings.append(f"{label}: two pasts can be told apart for {least}{int(horizon)} steps.")
    return Section(
        "forgetting",
        "How fast it forgets",
        "How long does the state remember what came before?",
        "The network reads two different beginnings and then the same continuation. The distance between its two "
        "states shows what is left of the difference. It is a second, independent way to measure memory: it looks "
        "forward through the states, where gradients look back. A distance that stays is a past that is remembered; "
        "one that grows is chaos.",
        formula(
            "d(s) =",
            frac(
                norm(row(sub("h", "p+s"), "-", both("h", "p+s", "′"))),
                norm(row(sub("h", "p"), "-", both("h", "p", "′"))),
            ),
        ),
        (draw_forgetting(found),),
        tuple(findings),
    )


def tell_jacobians(found: Jacobians) -> Section:
    """What one step does to a small change."""
    findings = []
    for label, steps, radius in zip(found.labels, found.singular, found.radius, strict=True):
        known = steps[np.isfinite(steps[:, 2])]
        if len(known):
            findings.append(
                f"{label}: a step multiplies a small change by {np.median(known[:, 2]):.2f} in the median direction "
                f"and by {np.median(known[:, 4]):.2f} in the strongest; mean spectral radius {radius:.2f}."
            )
    return Section(
        "jacobians",
        "What one step does to a small change",
        "Does the network stretch or shrink what it remembers?",
        "The Jacobian of a step says how a small change of the state before it shows after it. Its singular values are "
        "the factors of stretching, one for each direction. The bands show how they multiply over many steps: bands "
        "that sink are directions that are forgotten, a top edge near 1 is memory that lasts.",
        formula(
            sub("J", "t"),
            "=",
            frac(row("∂", sub("h", "t")), row("∂", sub("h", "t-1"))),
            ",",
            row("σ", "("),
            product("j<k"),
            sub("J", "t-j"),
            ")",
        ),
        (draw_lag_bands(found), draw_step_bands(found)),
        tuple(findings),
    )


def tell_lyapunov(found: Lyapunov) -> Section:
    """Whether nearby states part or meet."""
    findings = []
    for label, largest in zip(found.labels, found.largest, strict=True):
        if np.isfinite(largest):
            nature = "part" if largest > CHAOS else "meet" if largest < -CHAOS else "keep their distance"
            findings.append(f"{label}: largest exponent {largest:+.3f} nats a step, nearby states {nature}.")
    return Section(
        "lyapunov",
        "Order or chaos",
        "Do small differences grow or fade?",
        "Lyapunov exponents are the mean rates at which small differences of the state grow, one for each direction. "
        "All below zero: the network settles and forgets. The largest above zero: chaos, every difference grows. Near "
        "zero is where memory lasts longest; an orthogonal linear network has all of them at zero.",
        formula(
            sub("λ", "i"),
            "=",
            frac("1", "T"),
            total("t"),
            "ln",
            row("|", both("R", "ii", "(t)"), "|"),
            ",",
            sub("J", "t"),
            sub("Q", "t-1"),
            "=",
            sub("Q", "t"),
            sub("R", "t"),
        ),
        (draw_lyapunov(found),),
        tuple(findings),
    )


def tell_fixed_points(found: FixedPoints) -> Section:
    """Where the state would rest."""
    findings = []
    for one in found.sets:
        stable, unstable, slow = int(one.stable.sum()), int((~one.stable & ~one.slow).sum()), int(one.slow.sum())
        findings.append(
            f"{one.label}: {stable} stable, {unstable} unstable and {slow} slow point(s) with the mean input held."
        )
    return Section(
        "fixed-points",
        "Where it would rest",
        "Which states does the network settle in?",
        "With its input held still, a network moves towards states that no longer change, or drifts slowly along "
        "others. They are its memories. The plane shows the two directions in which states vary most, with the paths "
        "that the data took. A fixed point is stable if all eigenvalues of the Jacobian there lie within the unit "
        "circle; outside it, the state is driven away; near the circle it moves slowly, and remembers.",
        formula(
            sup("h", "∗"), "= F(", sup("h", "∗"), ", mean x)", ",", "q(h) =", frac("1", "2"), sup(norm("F(h) - h"), "2")
        ),
        (draw_phase_portrait(found), draw_eigenvalues(found)),
        tuple(findings),
    )


def tell_frequency(found: Frequency) -> Section:
    """Which rhythms pass."""
    findings = []
    for label, pole, stack in zip(found.labels, found.pole, found.stack, strict=True):
        if np.isfinite(pole) and np.isfinite(stack).any():
            slow = stack[0] / stack[-1] if stack[-1] else np.inf
            findings.append(
                f"{label}: behaves as a filter with a = {pole:.2f}; slow rhythms pass {slow:.2g} times as well as "
                "fast ones."
            )
    return Section(
        "frequency",
        "Which rhythms pass",
        "Does a layer listen to what is slow or to what is quick?",
        "A small wave is added to what the network reads, and its strength is measured behind every layer. A layer "
        "that keeps its state is a low-pass filter: slow waves pass, quick ones are smoothed away. The thin lines "
        "are the textbook's formula for a first-order filter with the pole that fits best. In a stack the filters "
        "multiply.",
        formula("g(ω) =", frac("1", root(row("1 - 2a cos ω +", sup("a", "2"))))),
        (draw_bode(found),),
        tuple(findings),
    )


def tell_sensitivity(found: Sensitivity) -> Section:
    """What each layer's recurrence adds."""
    findings = []
    for label, delta in zip(found.labels, found.delta, strict=True):
        if np.isfinite(delta):
            word = (
                "accumulates: without its recurrence less of the past would show"
                if delta > 0
                else "smooths: without its recurrence more would show"
            )
            findings.append(f"{label} {word} (Δ = {delta:+.3g}).")
    return Section(
        "sensitivity",
        "What each layer's memory adds",
        "How does one event echo in the output, and whose memory is it?",
        "One step's input is pushed a little, and the change of the output is followed. The thick line is the whole "
        "network; the others are the same with one layer's recurrence taken out. Where a line lies far below the thick "
        "one, that layer carries the memory.",
        formula(
            "K(τ) =",
            norm(frac(row("∂", sub("y", "t+τ")), row("∂", sub("x", "t")))),
            ",",
            sub("Δ", "ℓ"),
            "=",
            total("τ"),
            "|K(τ)| -",
            total("τ"),
            "|",
            sup("K", "(-ℓ)"),
            "(τ)|",
        ),
        (draw_sensitivity(found),),
        tuple(findings),
    )
