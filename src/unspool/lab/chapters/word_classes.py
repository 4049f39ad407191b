"""Word classes: what a network that only predicts the next word knows about verbs and nouns."""

from __future__ import annotations

import statistics

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from unspool import lab
from unspool import nn as unspool_nn
from unspool.insight import measure_clusters
from unspool.lab.data import ELMAN_CLASSES, ELMAN_WORDS, elman_language

NOUNS = (*ELMAN_CLASSES["animate"], *ELMAN_CLASSES["inanimate"])
VERBS = tuple(word for name, words in ELMAN_CLASSES.items() if "-" in name for word in words)
KINDS = ("verbs and nouns", "animate and inanimate nouns")
#: As many clusters as the language has classes of such words: two of nouns and four of verbs; two of nouns.
CLUSTERS = (6, 2)


class Reader(nn.Module):
    """A simple recurrent network that predicts the next word."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(ELMAN_WORDS), 16)
        self.layer = unspool_nn.Recurrent("elman", 16, 48)
        self.head = nn.Linear(48, len(ELMAN_WORDS))

    def states(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(self.embedding(tokens))[0]
        return found

    def loss(self, seed: int) -> torch.Tensor:
        tokens = torch.as_tensor(elman_language(6, 32, seed).tokens)
        logits = self.head(self.states(tokens[:-1]))
        return functional.cross_entropy(logits.flatten(0, 1), tokens[1:].flatten())


def mean_states(reader: Reader, words: tuple[str, ...], seed: int) -> NDArray[np.float64]:
    """The mean state after each word, over its occurrences in new text."""
    tokens = elman_language(6, 400, 1_000_000_000 + seed).tokens
    with torch.no_grad():
        states = reader.states(torch.as_tensor(tokens)).double().numpy()
    return np.array([states[tokens == ELMAN_WORDS.index(word)].mean(0) for word in words])


def purities(reader: Reader, seed: int) -> dict[str, dict[str, float]]:
    """How pure two clusters of mean states are, and how pure they are for shuffled labels."""
    found = {}
    for kind, count, words in zip(KINDS, CLUSTERS, (NOUNS + VERBS, NOUNS), strict=True):
        special = VERBS if words != NOUNS else ELMAN_CLASSES["animate"]
        labels = [word in special for word in words]
        clusters = measure_clusters(mean_states(reader, words, seed), labels, count, seed=seed)
        found[kind] = {"purity": clusters.purity, "chance": clusters.chance, "limit": clusters.limit}
    return found


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(800, 2000)
    runs = []
    for seed in study.seeds():
        torch.manual_seed(seed)
        reader = Reader()
        before = purities(reader, seed)

        def loss(step: int, reader: Reader = reader, seed: int = seed) -> torch.Tensor:
            return reader.loss(seed * 100_000 + step)

        lab.fit(reader, loss, steps, lr=5e-3)
        runs.append({"before": before, "after": purities(reader, seed), "points": points(reader, seed)})
    return {"steps": steps, "runs": runs}


def points(reader: Reader, seed: int) -> list[list[float]]:
    """The mean states of all words in two dimensions."""
    words = NOUNS + VERBS
    found: list[list[float]] = measure_clusters(mean_states(reader, words, seed), words, 2, 1).points2d.tolist()
    return found


def judge(found: lab.Found) -> lab.Verdict:
    parts = []
    for kind in KINDS:
        after = [run["after"][kind] for run in found["runs"]]
        gained = [run["after"][kind]["purity"] - run["before"][kind]["purity"] for run in found["runs"]]
        parts.append(lab.above(KIND_TEXTS[kind][0], [one["purity"] - one["limit"] for one in after]))
        parts.append(lab.above(KIND_TEXTS[kind][1], gained))
    return lab.all_of(*parts)


KIND_TEXTS = {
    KINDS[0]: (
        "purity of verbs and nouns above that of shuffled labels",
        "purity of verbs and nouns after training minus before",
    ),
    KINDS[1]: (
        "purity of animate and inanimate nouns above that of shuffled labels",
        "purity of animate and inanimate nouns after training minus before",
    ),
}


def show(found: lab.Found) -> lab.Shown:
    rows: list[tuple[str | float, ...]] = []
    for kind in KINDS:
        each = {when: [run[when][kind] for run in found["runs"]] for when in ("before", "after")}
        means = [statistics.fmean(one["purity"] for one in each[when]) for when in ("before", "after")]
        chance = [statistics.fmean(one[name] for one in each["after"]) for name in ("chance", "limit")]
        rows.append((kind, *means, *chance))
    places = found["runs"][0]["points"]
    groups = (ELMAN_CLASSES["animate"], ELMAN_CLASSES["inanimate"], VERBS)
    series = []
    for name, words in zip(("animate nouns", "inanimate nouns", "verbs"), groups, strict=True):
        own = [places[(NOUNS + VERBS).index(word)] for word in words]
        series.append(lab.Series(name, [x for x, _ in own], [y for _, y in own]))
    heading = ("clusters", "purity before training", "after", "shuffled labels", "95 % of shuffles are below")
    axes = ("first principal component", "second principal component")
    return lab.Shown(
        tables=(lab.Table(heading, rows),),
        figures=(lab.Lines("Mean states of words, first seed", *axes, series, points=True),),
    )


CHAPTER = lab.Chapter(
    claim="S3-5",
    equation="P(w_{t+1} | w_1 … w_t) = softmax(V h_t)\nh_t = tanh(W x_t + U h_{t−1} + b)",
    method=(
        "A simple recurrent network with 48 units learns to predict the next word of a generated language. Verbs, "
        "animate and inanimate nouns are equally frequent at every place of a sentence, so that position tells "
        "nothing; only which words go together does. The mean states of 32 words are put in six clusters by Ward's "
        "method, without labels, since the language has four classes of verbs and two of nouns; those of the nouns in "
        "two. The claim holds if the clusters are purer than for 95 % of shuffled labels and purer than before "
        "training, for verbs against nouns and, among nouns, for animate against inanimate ones."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
