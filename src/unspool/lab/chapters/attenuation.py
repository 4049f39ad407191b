"""Redundant attenuation: what two closed gates leave of a signal, and two cures."""

from __future__ import annotations

import math
import statistics

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from unspool import lab
from unspool.lab.data import copy_memory
from unspool.learning import double_closed, gate_penalty, neighboring_gates
from unspool.nn import Recurrent, Stack

GATES = ((0.1, 0.1), (0.1, 0.9), (0.5, 0.2), (1.0, 1.0))
KINDS = ("plain", "open", "penalized")
PAUSE, LENGTH, SYMBOLS, UNITS, PENALTY = 3, 3, 4, 24, 0.01
#: The penalty keeps the expressiveness if its error is at most this many times the plain network's.
KEPT = 1.1


def signal_left(o: float, i: float) -> float:
    """∂c^(2)/∂c^(1) of two LSTM cells with fixed gates, at rest and with a weight of 1 between them."""
    lower, upper = Recurrent("lstm", 1, 1, dtype=torch.float64), Recurrent("lstm", 1, 1, dtype=torch.float64)
    with torch.no_grad():
        for layer in (lower, upper):
            for parameter in layer.parameters():
                parameter.zero_()
        lower.get_parameter("b_o").fill_(logit(o))
        lower.get_parameter("b_f").fill_(40.0)
        upper.get_parameter("b_i").fill_(logit(i))
        upper.get_parameter("W_g").fill_(1.0)
    zero = torch.zeros(1, 1, dtype=torch.float64)
    c = zero.clone().requires_grad_()
    shown, _ = lower.take_step(zero, (zero, c))
    _, taken = upper.take_step(shown, (zero, zero))
    return float(torch.autograd.grad(taken.sum(), c)[0])


def logit(gate: float) -> float:
    return 40.0 if gate == 1 else math.log(gate / (1 - gate))


def batch(seed: int) -> tuple[Tensor, Tensor]:
    x, y = map(torch.as_tensor, copy_memory(PAUSE, 64, LENGTH, SYMBOLS, seed=seed))
    return one_hot(x, SYMBOLS + 2).float(), y


def error(stack: Stack, head: nn.Module, seed: int, penalty: float = 0.0) -> Tensor:
    """Cross-entropy of the symbols that are to be repeated."""
    x, y = batch(seed)
    sequences, _ = stack(x, every_layer=True)
    found = cross_entropy(head(sequences[-1][-LENGTH:]).flatten(0, 1), y[-LENGTH:].flatten())
    if penalty:
        found = found + penalty * sum(gate_penalty(o, i) for o, i in neighboring_gates(stack, x, sequences))
    return found


def train(kind: str, steps: int, seed: int) -> lab.Found:
    """The error of a trained network, and how often gates are closed on both sides."""
    torch.manual_seed(seed)
    stack = Stack(["lstm-open" if kind == "open" else "lstm", "lstm"], SYMBOLS + 2, UNITS)
    head = nn.Linear(UNITS, SYMBOLS + 1)
    penalty = PENALTY if kind == "penalized" else 0.0
    first = seed * 100_000
    lab.fit(nn.ModuleList([stack, head]), lambda step: error(stack, head, first + step, penalty), steps, lr=1e-2)
    with torch.no_grad():
        loss = statistics.fmean(float(error(stack, head, first + 99_000 + n)) for n in range(10))
        x, _ = batch(first + 99_999)
        sequences, _ = stack(x, every_layer=True)
        pairs = [] if kind == "open" else neighboring_gates(stack, x, sequences)
    return {"error": loss, "closed": double_closed(*pairs[0]) if pairs else 0.0}


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(600, 1500)
    left = [{"o": o, "i": i, "measured": signal_left(o, i)} for o, i in GATES]
    runs: dict[str, list[lab.Found]] = {kind: [] for kind in KINDS}
    for seed in study.seeds():
        for kind in KINDS:
            runs[kind].append(train(kind, steps, seed))
    return {"left": left, "runs": runs}


def judge(found: lab.Found) -> lab.Verdict:
    difference = max(abs(one["measured"] - one["o"] * one["i"]) for one in found["left"])
    plain, opened, penalized = (found["runs"][kind] for kind in KINDS)
    closed = [b["closed"] - a["closed"] for a, b in zip(plain, penalized, strict=True)]
    cost = [math.log(b["error"] / a["error"]) for a, b in zip(plain, opened, strict=True)]
    kept = [math.log(b["error"] / a["error"]) for a, b in zip(plain, penalized, strict=True)]
    return lab.all_of(
        lab.at_most("signal that is left, largest difference from o·i", difference, 1e-12),
        lab.below("change of doubly closed gates by the penalty", closed),
        lab.above("o ≡ 1: growth of ln of the error", cost),
        lab.below("penalty: growth of ln of the error", kept, math.log(KEPT)),
    )


def show(found: lab.Found) -> lab.Shown:
    left = [(one["o"], one["i"], one["o"] * one["i"], one["measured"]) for one in found["left"]]
    rows = []
    for kind, runs in found["runs"].items():
        errors, closed = [run["error"] for run in runs], [run["closed"] for run in runs]
        rows.append((kind, statistics.fmean(errors), max(errors), statistics.fmean(closed)))
    kinds = list(KINDS)
    return lab.Shown(
        tables=(
            lab.Table(("o below", "i above", "o·i", "signal that is left"), left),
            lab.Table(("LSTM", "cross-entropy, mean over seeds", "worst seed", "gates closed on both sides"), rows),
        ),
        figures=(
            lab.Bars(
                "Error of two-layer LSTMs",
                "cross-entropy",
                [lab.Series("error", kinds, [r[1] for r in rows])],
                log_y=True,
            ),
            lab.Bars("Gates closed on both sides", "fraction", [lab.Series("closed", kinds, [r[3] for r in rows])]),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S0-7",
    equation="∂c_t^{(2)}/∂c_t^{(1)} = i_t^{(2)} o_t^{(1)} at rest\nR = λ Σ_t ‖relu(1 − o_t^{(1)} − i_t^{(2)})‖_1",
    method=(
        "The signal that passes between two LSTM cells with fixed gates is measured by its derivative, to 1e-12. Then "
        "two-layer LSTMs learn to repeat three symbols after a pause: plain, with the output gates of the lower layer "
        "held open, and with the penalty on gates that are closed on both sides. The claim holds if the penalty makes "
        "such gates rarer, its error is at most 1.1 times the plain one's, and o ≡ 1 has a higher error."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
