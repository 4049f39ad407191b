"""Sections about gradients: where they die, what each step gives, and what truncation costs."""

from __future__ import annotations

import numpy as np

from unspool.insight.figures.gradient import (
    draw_gradient_map,
    draw_step_shares,
    draw_streams,
    draw_survival,
    draw_truncation,
)
from unspool.insight.measures.flow import HORIZON, GradientFlow
from unspool.insight.measures.shares import WeightShares
from unspool.insight.measures.streams import Streams
from unspool.insight.measures.truncation import Truncation
from unspool.insight.report.contract import Section
from unspool.insight.sections.mathml import formula, frac, norm, product, row, sub, total


def tell_flow(flow: GradientFlow) -> Section:
    """How far back gradients reach."""
    findings = []
    for label, horizon, censored, rate, survival in zip(
        flow.labels, flow.horizon, flow.censored, flow.rate, flow.survival, strict=True
    ):
        if not np.isfinite(survival).any():
            findings.append(f"{label}: no loss reaches it but through another layer's start, so no distance is known.")
            continue
        least = "at least " if censored else ""
        pace = "" if not np.isfinite(rate) else f", a factor of {rate:.3g} at each step"
        findings.append(f"{label}: above {HORIZON:.0%} for {least}{int(horizon)} steps back{pace}.")
    return Section(
        "flow",
        "Where gradients die",
        "How far back can this network learn?",
        "A weight can only learn from a step if the loss's gradient comes back to that step. The map shows how large "
        "the gradient of the loss is at every step and in every layer. The curve follows it from where a loss arises: "
        "what share of it is left so many steps earlier. A straight line that falls is a gradient that vanishes by the "
        "same factor at each step; one that rises is a gradient that explodes. The horizon is where 1 % is left: what "
        "lies further back is not learned from. (s are all states of a layer: h, and in an LSTM c too.)",
        formula(
            frac(row("∂", "L"), row("∂", sub("s", "t-k"))),
            "=",
            frac(row("∂", "L"), row("∂", sub("s", "t"))),
            product("j<k"),
            frac(row("∂", sub("s", "t-j")), row("∂", sub("s", "t-j-1"))),
        ),
        (draw_survival(flow), draw_gradient_map(flow)),
        tuple(findings),
    )


def tell_truncation(found: Truncation, window: int | None) -> Section:
    """What truncation costs."""
    windows = len(found.windows)
    enough = f"More than {windows} steps are needed" if found.censored else f"{found.recommended} steps are enough"
    findings = [f"{enough} to be within 1 % of the whole gradient."]
    if window is not None and window <= windows:
        findings.append(f"With the run's window of {window} steps it is off by {found.overall[window - 1]:.1%}.")
    return Section(
        "truncation",
        "What truncation costs",
        "How many steps must training go back?",
        "Truncated back-propagation follows the gradient over a window of k steps and cuts off the rest. What it loses "
        "is exactly the sum of all paths that are longer. The curve shows how far the cut gradient is from the whole "
        "one, for every k. Where it has fallen to 1 % a longer window buys nothing.",
        formula(
            sub("G", "k"),
            "-",
            "G",
            "=",
            "-",
            total("j≥k"),
            sub("g", "j"),
            ",",
            "bias =",
            frac(norm(row("G-", sub("G", "k"))), norm("G")),
        ),
        (draw_truncation(found, window),),
        tuple(findings),
    )


def tell_shares(found: WeightShares) -> Section:
    """What each step's use of the shared weights gives."""
    findings = []
    for label, shares in zip(found.labels, found.shares, strict=True):
        known = np.nan_to_num(shares)
        order = np.sort(np.abs(known))[::-1]
        if order.sum() > 0:
            few = int(np.searchsorted(np.cumsum(order) / order.sum(), 0.5)) + 1
            findings.append(f"{label}: half of the gradient comes from {few} of {len(known)} steps.")
    return Section(
        "shares",
        "Who teaches the weights",
        "Which steps does the gradient of the shared weights come from?",
        "All steps use the same weights, so a weight's gradient is a sum over its uses. The line is the share of each "
        "step in that sum; the shares add up to 1, and a negative one pulls against the others. If a few steps teach "
        "everything, the rest of the sequence is not used.",
        formula("G =", total("t"), sub("G", "t"), ",", "share =", frac(row("⟨", sub("G", "t"), ", G⟩"), row("⟨G, G⟩"))),
        (draw_step_shares(found),),
        tuple(findings),
    )


def tell_streams(found: Streams) -> Section:
    """Which unit's gradient goes to which."""
    findings = [f"{found.paths} path(s) of gradients lead from the top layer to the lowest."]
    if found.cross is not None:
        findings.append(f"{found.cross:.0%} of the gradient between layers changes its direction of time.")
    return Section(
        "streams",
        "Ways between layers",
        "Which layer teaches which?",
        "Between layers, gradients flow from what a layer reads to the layers that it reads from. Each field shows how "
        "much comes to one layer (column) directly through another (row). In nets that read in both directions, the "
        "fields off the main blocks tell how much the two directions teach each other; with skip connections there are "
        "several paths, as many as a Fibonacci number.",
        formula(
            sub("F", "ij"),
            "=",
            norm(row(frac(row("∂", sub("x", "i")), row("∂", sub("h", "j"))), frac("∂L", row("∂", sub("x", "i"))))),
        ),
        (draw_streams(found),),
        tuple(findings),
    )
