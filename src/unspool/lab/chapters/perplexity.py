"""Perplexity: 1 for a perfect model, infinite where a true token gets probability 0, |V| for the uniform model."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import cross_entropy

from unspool import lab
from unspool.learning import linear_cross_entropy

SIZES = (2, 15, 100, 10_000)
TOKENS = 50
#: The probability of the true token, for the figure.
CURVE = [2.0**-power for power in range(17)]


def perplexity(probabilities: torch.Tensor, targets: torch.Tensor) -> float:
    """exp of the mean cross-entropy, from the probabilities (tokens, |V|) of a model."""
    return math.exp(cross_entropy(probabilities.log(), targets))


def perfect(V: int) -> float:
    targets = torch.arange(TOKENS) % V
    return perplexity(torch.eye(V, dtype=torch.float64)[targets], targets)


def uniform(V: int) -> float:
    """A head without weights, as the first update of a language model finds it."""
    hidden = torch.randn(TOKENS, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(V))
    head = torch.zeros(V, 8, dtype=torch.float64)
    return math.exp(linear_cross_entropy(hidden, head, None, torch.arange(TOKENS) % V))


def one_impossible(V: int) -> float:
    """A model that is perfect but for one token, which it calls impossible."""
    targets = torch.arange(TOKENS) % V
    predicted = targets.clone()
    predicted[TOKENS // 2] = (targets[TOKENS // 2] + 1) % V
    return perplexity(torch.eye(V, dtype=torch.float64)[predicted], targets)


def fixed(p: float, V: int = 100) -> float:
    """The true token always gets p, and the others share the rest."""
    targets = torch.arange(TOKENS) % V
    probabilities = torch.full((TOKENS, V), (1 - p) / (V - 1), dtype=torch.float64)
    probabilities[torch.arange(TOKENS), targets] = p
    return perplexity(probabilities, targets)


def measure(study: lab.Study) -> lab.Found:  # noqa: ARG001
    cases = [{"V": V, "perfect": perfect(V), "impossible": one_impossible(V), "uniform": uniform(V)} for V in SIZES]
    return {"cases": cases, "curve": [fixed(p) for p in CURVE]}


def judge(found: lab.Found) -> lab.Verdict:
    cases = found["cases"]
    return lab.all_of(
        lab.at_most(
            "largest difference from 1, perfect models", max(abs(case["perfect"] - 1) for case in cases), 1e-10
        ),
        lab.at_most(
            "largest relative difference from |V|, uniform models",
            max(abs(case["uniform"] / case["V"] - 1) for case in cases),
            1e-10,
        ),
        lab.at_least(
            "smallest perplexity if one true token gets probability 0",
            min(float(case["impossible"]) for case in cases),
            math.inf,
        ),
    )


def show(found: lab.Found) -> lab.Shown:
    heading = ("|V|", "perfect model", "one true token has probability 0", "uniform model")
    rows = [(case["V"], case["perfect"], case["impossible"], case["uniform"]) for case in found["cases"]]
    curve = lab.Series("perplexity", CURVE, found["curve"])
    marks = (lab.Mark("uniform model", 100.0), lab.Mark("perfect model", 1.0))
    return lab.Shown(
        tables=(lab.Table(heading, rows),),
        figures=(
            lab.Lines(
                "Perplexity, |V| = 100",
                "probability of the true token",
                "perplexity",
                [curve],
                log_x=True,
                log_y=True,
                marks=marks,
            ),
        ),
        remarks=("A single true token with probability 0 is enough for an infinite perplexity.",),
    )


CHAPTER = lab.Chapter(
    claim="S2-2",
    equation="perplexity = exp(−1/n Σ_t log P(x_t | x_{t−1}, …, x_1))",
    method=(
        "The perplexity of 50 tokens is computed from the mean cross-entropy in double precision, for vocabularies of "
        "2 to 10,000 tokens: for a model that gives every true token probability 1, for one that gives a single true "
        "token probability 0, and for a head whose weights are zero, so that all tokens are equally probable."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
