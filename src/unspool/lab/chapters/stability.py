"""Stability: Lyapunov exponents of the forward dynamics against the growth of gradients, over recurrent gains."""

from __future__ import annotations

import math

import numpy as np
import torch

from unspool import lab
from unspool.insight import measure_flow, measure_lyapunov, record
from unspool.nn import Recurrent, init

GAINS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)
UNITS, STEPS, BATCH = 32, 150, 2
LINEAR_TOLERANCE = 1e-9
#: Nats per step: an exponent over some hundred steps is not known better.
TOLERANCE = 0.05
#: Exponents this near to 0 have no sign that finite sequences could tell.
MARGINAL = 0.02


def exponents(cell: str, gain: float, seed: int) -> tuple[float, float]:
    """The largest Lyapunov exponent, and the logarithm of the factor of the gradient per step; both per step."""
    torch.manual_seed(seed)
    layer = Recurrent(cell, 1, UNITS, bias=False, dtype=torch.float64)
    if cell == "linear":
        init.orthogonal_(layer, gain)
    else:
        torch.nn.init.normal_(layer.get_parameter("U_h"), std=gain / math.sqrt(UNITS))
    x = torch.zeros(STEPS, BATCH, 1, dtype=torch.float64)
    start = torch.randn(BATCH, UNITS, dtype=torch.float64)
    wanted = torch.randn(BATCH, UNITS, dtype=torch.float64)
    recording = record(layer, lambda model: (model(x, start)[0][-1] * wanted).sum())
    return float(measure_lyapunov(recording).largest[0]), math.log(measure_flow(recording).rate[0])


def measure(study: lab.Study) -> lab.Found:
    rows = []
    for cell in ("linear", "elman"):
        for gain in GAINS:
            seeds = 1 if cell == "linear" else study.choose(1, 2)
            forward, backward = zip(*[exponents(cell, gain, seed) for seed in range(seeds)], strict=True)
            rows.append({"cell": cell, "gain": gain, "forward": forward, "backward": backward})
    return {"rows": rows}


def differences(found: lab.Found, cell: str) -> list[float]:
    """Between the two exponents, for each gain and seed."""
    rows = [row for row in found["rows"] if row["cell"] == cell]
    return [abs(f - b) for row in rows for f, b in zip(row["forward"], row["backward"], strict=True)]


def agreement(found: lab.Found) -> float:
    """The fraction of networks with a decided sign in which both exponents have the same one."""
    pairs = [pair for row in found["rows"] for pair in zip(row["forward"], row["backward"], strict=True)]
    return float(np.mean([f * b > 0 for f, b in pairs if abs(f) > MARGINAL]))


def judge(found: lab.Found) -> lab.Verdict:
    return lab.all_of(
        lab.at_least("networks in which both exponents have the same sign", agreement(found), 1.0),
        lab.at_most("linear: largest difference of the exponents", max(differences(found, "linear")), LINEAR_TOLERANCE),
        lab.at_most("tanh: mean difference of the exponents", float(np.mean(differences(found, "elman"))), TOLERANCE),
    )


def show(found: lab.Found) -> lab.Shown:
    rows = [(r["cell"], r["gain"], float(np.mean(r["forward"])), float(np.mean(r["backward"]))) for r in found["rows"]]
    series = []
    for cell in ("linear", "elman"):
        chosen = [row for row in rows if row[0] == cell]
        gains = [row[1] for row in chosen]
        series.append(lab.Series(f"{cell}: λ", gains, [row[2] for row in chosen]))
        series.append(lab.Series(f"{cell}: ∂L/∂h", gains, [row[3] for row in chosen]))
    return lab.Shown(
        tables=(lab.Table(("cell", "gain", "Lyapunov exponent", "gradient, logarithm of the factor per step"), rows),),
        figures=(
            lab.Lines(
                "Growth of states and of gradients",
                "gain of the recurrent matrix",
                "nats per step",
                series,
                marks=(lab.Mark("neither grows nor decays", 0.0),),
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S0-9",
    equation="δ_t = J_t ⋯ J_1 δ_0, ‖δ_t‖ ∼ e^{λt}\n∂L/∂h_0 = J_1^{T} ⋯ J_T^{T} ∂L/∂h_T, ‖∂L/∂h_{T−k}‖ ∼ e^{μk}",
    method=(
        "Networks without input have recurrent matrices of gains from 0.5 to 2: linear ones with an orthogonal matrix, "
        "and tanh ones with a random one. The largest Lyapunov exponent of the forward dynamics is compared with the "
        "logarithm of the factor per step of the gradient of a loss at the last step. The claim holds if both always "
        "have the same sign, are equal to 1e-9 in linear networks, and differ by at most 0.05 on average in tanh ones. "
        "What counts is the stability along the states that are visited. An unstable origin is not enough: tanh may "
        "carry the state to a place that is stable."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
