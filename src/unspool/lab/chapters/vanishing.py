"""Vanishing and exploding gradients: a scalar network multiplies its gradient by its weight at every step."""

from __future__ import annotations

import math

import torch

from unspool import lab
from unspool import nn as unspool_nn
from unspool.insight import measure_flow, record
from unspool.language import Message

TOLERANCE = 1e-10
LAGS = 31
#: The document's cases: the weight, the steps, and the factor that it states.
CASES = ((0.5, 30, 1e-9), (1.5, 20, 3325.0))


def survival(cell: str, weight: float) -> list[float]:
    """What is left of the gradient of the last state after 0, 1, … steps back."""
    layer = unspool_nn.Recurrent(cell, 1, 1, bias=False, dtype=torch.float64)
    torch.nn.init.constant_(layer.get_parameter("U_h"), weight)
    x = torch.linspace(-1, 1, LAGS, dtype=torch.float64).reshape(LAGS, 1, 1)
    recording = record(layer, lambda model: model(x)[0][-1].sum())
    left: list[float] = measure_flow(recording, limit=LAGS).survival[0].tolist()
    return left


def measure(_study: lab.Study) -> lab.Found:
    weights = (0.5, 0.9, 1.0, 1.5)
    return {
        "weights": weights,
        "linear": [survival("linear", weight) for weight in weights],
        "tanh": [survival("elman", weight) for weight in weights],
    }


def largest_error(found: lab.Found) -> float:
    """The largest relative difference from w^k."""
    pairs = zip(found["weights"], found["linear"], strict=True)
    errors: list[float] = [abs(left / w**lag - 1) for w, curve in pairs for lag, left in enumerate(curve)]
    return max(errors)


def stated_error(found: lab.Found) -> float:
    """How far the document's numbers are from the measured ones, in powers of ten."""
    curves = dict(zip(found["weights"], found["linear"], strict=True))
    return max(abs(math.log10(curves[weight][lag] / factor)) for weight, lag, factor in CASES)


def tanh_excess(found: lab.Found) -> float:
    """How much more than w^k is left with tanh, at most: 0 if never more."""
    pairs = zip(found["tanh"], found["linear"], strict=True)
    excess: list[float] = [a / b - 1 for less, more in pairs for a, b in zip(less, more, strict=True)]
    return max(excess)


def judge(found: lab.Found) -> lab.Verdict:
    return lab.all_of(
        lab.at_most("largest relative difference from w^k", largest_error(found), TOLERANCE),
        lab.at_most("distance from the stated factors in powers of ten", stated_error(found), 0.05),
        lab.at_most("what tanh leaves beyond w^k", tanh_excess(found), TOLERANCE),
    )


def show(found: lab.Found) -> lab.Shown:
    curves = {kind: dict(zip(found["weights"], found[kind], strict=True)) for kind in ("linear", "tanh")}
    rows = [
        (weight, lag, factor, weight**lag, curves["linear"][weight][lag], curves["tanh"][weight][lag])
        for weight, lag, factor in CASES
    ]
    series = [
        lab.Series(Message(name, weight=weight), list(range(len(curve))), curve)
        for name, each in (("w = {weight:g}, linear", curves["linear"]), ("w = {weight:g}, tanh", curves["tanh"]))
        for weight, curve in each.items()
    ]
    return lab.Shown(
        tables=(lab.Table(("w", "steps k", "stated", "w^k", "measured, linear", "measured, tanh"), rows),),
        figures=(
            lab.Lines("What is left of a gradient", "steps back", "fraction of the gradient", series, log_y=True),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S1-3",
    equation="h_t = φ(w h_{t−1} + x_t)\n|∂h_t/∂h_{t−k}| ≤ |w|^{k}, with equality if φ(a) = a",
    method=(
        "The gradient of the last state of a scalar network is followed back through 30 steps, for several weights, "
        "with a linear activation and with tanh. The claim holds if the linear network leaves w^k after k steps, to "
        "10⁻¹⁰; if the two stated factors are right within 0.05 powers of ten; and if tanh never leaves more."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
