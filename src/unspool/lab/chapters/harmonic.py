"""An error of the document: perplexity is the geometric mean of the number of choices, not the harmonic one."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import cross_entropy

from unspool import lab
from unspool.language import Message

V = 32
MEANS = ("harmonic", "geometric", "arithmetic")


def true_probabilities() -> dict[str, list[float]]:
    """Case → the probabilities that a model gives the true tokens."""
    drawn = torch.rand(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return {
        "all 1/4": [1 / 4] * 4,
        "1/2 and 1/8": [1 / 2, 1 / 8],
        "1 and 1/100": [1.0, 1 / 100],
        "random": drawn.clamp_min(0.01).tolist(),
    }


def perplexity(probabilities: list[float]) -> float:
    """exp of the mean cross-entropy of a model that gives the true tokens these probabilities."""
    p = torch.tensor(probabilities, dtype=torch.float64)
    logits = ((1 - p) / (V - 1)).log().unsqueeze(1).repeat(1, V)
    logits[:, 0] = p.log()
    return math.exp(cross_entropy(logits, torch.zeros(len(p), dtype=torch.long)))


def means(probabilities: list[float]) -> dict[str, float]:
    """The means of the number of choices 1/p."""
    choices = [1 / p for p in probabilities]
    return {
        "harmonic": len(choices) / sum(1 / choice for choice in choices),
        "geometric": math.prod(choices) ** (1 / len(choices)),
        "arithmetic": sum(choices) / len(choices),
    }


def measure(study: lab.Study) -> lab.Found:  # noqa: ARG001
    return {case: {"perplexity": perplexity(p), **means(p)} for case, p in true_probabilities().items()}


def difference(found: lab.Found, mean: str) -> float:
    """The largest relative difference between perplexity and a mean."""
    return max(abs(float(case["perplexity"] / case[mean]) - 1) for case in found.values())


def judge(found: lab.Found) -> lab.Verdict:
    what = "largest relative difference between perplexity and the harmonic mean"
    return lab.at_most(what, difference(found, "harmonic"), 1e-10)


def show(found: lab.Found) -> lab.Shown:
    columns = ("perplexity", *MEANS)
    return lab.Shown(
        tables=(
            lab.Table(
                (
                    "probabilities of the true tokens",
                    "perplexity",
                    "harmonic mean",
                    "geometric mean",
                    "arithmetic mean",
                ),
                [(case, *(numbers[column] for column in columns)) for case, numbers in found.items()],
            ),
        ),
        figures=(
            lab.Bars(
                "Perplexity and three means of the number of choices 1/p",
                "choices",
                [
                    lab.Series(column, list(found), [numbers[column] for numbers in found.values()])
                    for column in columns
                ],
                log_y=True,
            ),
        ),
        remarks=(
            Message(
                "Perplexity is the geometric mean: the largest relative difference is {value:.1e}. The harmonic mean "
                "is smaller, and equal only if all true tokens have the same probability.",
                value=difference(found, "geometric"),
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S2-e",
    equation="harmonic: n / Σ_t p_t\ngeometric: (Π_t 1/p_t)^{1/n} = exp(−1/n Σ_t log p_t) = perplexity",
    method=(
        "A model that gives the true token probability p has, as it were, 1/p choices. For four sets of probabilities "
        "the perplexity, from the mean cross-entropy in double precision, is compared with the harmonic, the geometric "
        "and the arithmetic mean of 1/p. The claim holds if perplexity equals the harmonic mean to 1e−10."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
