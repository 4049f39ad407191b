"""Word roles: whether the states of one word tell subject from object where only the earlier context does."""

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
from unspool.lab.data import ELMAN_CLASSES, ELMAN_SENTENCE, ELMAN_WORDS, SUBJECT, elman_language

WORDS = ELMAN_CLASSES["animate"]
#: Verbs whose subject and object are both animate, and where a noun stands between such a verb and the closer.
EVEN = [ELMAN_WORDS.index(word) for word in ELMAN_CLASSES["animate-animate"]]
VERB_PLACE, NOUN_PLACE = 2, 3


class Reader(nn.Module):
    """A recurrent network that predicts the next word."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(ELMAN_WORDS), 16)
        self.layer = unspool_nn.Recurrent("gru", 16, 32)
        self.head = nn.Linear(32, len(ELMAN_WORDS))

    def states(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.layer(self.embedding(tokens))[0]
        return found

    def loss(self, seed: int) -> torch.Tensor:
        tokens = torch.as_tensor(elman_language(6, 32, seed).tokens)
        logits = self.head(self.states(tokens[:-1]))
        return functional.cross_entropy(logits.flatten(0, 1), tokens[1:].flatten())


class Occurrences:
    """The places of one word as the last noun, right behind a verb that takes animate subjects and objects."""

    def __init__(self, seed: int) -> None:
        self.text = elman_language(6, 1500, 1_000_000_000 + seed)
        place = np.arange(len(self.text.tokens)) % ELMAN_SENTENCE
        before = np.roll(self.text.tokens, 1, axis=0)
        self.here = (place == NOUN_PLACE)[:, None] & np.isin(before, EVEN)
        self.before = before

    def guess(self) -> float:
        """How often the role is right that is more frequent after the previous word."""
        role = self.text.roles == SUBJECT
        shares = [float(role[self.here & (self.before == verb)].mean()) for verb in EVEN]
        return statistics.fmean(max(share, 1 - share) for share in shares)

    def of(self, word: str) -> tuple[NDArray[np.intp], ...]:
        """Time and sequence, at most 120 of them: clustering compares all pairs."""
        found = np.nonzero(self.here & (self.text.tokens == ELMAN_WORDS.index(word)))
        return tuple(axis[:120] for axis in found)


def purities(reader: Reader, seed: int) -> dict[str, float]:
    """The mean over words of the purity of two clusters of a word's states, by role and by the previous word."""
    places = Occurrences(seed)
    with torch.no_grad():
        states = reader.states(torch.as_tensor(places.text.tokens)).double().numpy()
    found = []
    for word in WORDS:
        at = places.of(word)
        role = places.text.roles[at] == SUBJECT
        clusters = measure_clusters(states[at], role.tolist(), shuffles=200, seed=seed)
        found.append((clusters.purity, clusters.chance, clusters.limit))
    means = [statistics.fmean(each) for each in zip(*found, strict=True)]
    return dict(zip(("purity", "chance", "limit"), means, strict=True)) | {"previous word": places.guess()}


def cloud(reader: Reader, seed: int) -> dict[str, list[list[float]]]:
    """The states of the first word in two dimensions, by role."""
    places = Occurrences(seed)
    at = places.of(WORDS[0])
    with torch.no_grad():
        states = reader.states(torch.as_tensor(places.text.tokens)).double().numpy()[at]
    role = places.text.roles[at] == SUBJECT
    flat = measure_clusters(states, role.tolist(), shuffles=1).points2d
    return {"subject": flat[role].tolist(), "object": flat[~role].tolist()}


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
        runs.append({"before": before, "after": purities(reader, seed), "cloud": cloud(reader, seed)})
    return {"steps": steps, "runs": runs}


def judge(found: lab.Found) -> lab.Verdict:
    runs = found["runs"]
    return lab.all_of(
        lab.above(
            "purity above that of shuffled roles", [run["after"]["purity"] - run["after"]["limit"] for run in runs]
        ),
        lab.above(
            "purity above that before training", [run["after"]["purity"] - run["before"]["purity"] for run in runs]
        ),
    )


def show(found: lab.Found) -> lab.Shown:
    rows: list[tuple[str | float, ...]] = []
    for title, when in (("before training", "before"), ("after training", "after")):
        names = ("purity", "chance", "limit", "previous word")
        rows.append((title, *(statistics.fmean(run[when][name] for run in found["runs"]) for name in names)))
    first = found["runs"][0]["cloud"]
    series = [
        lab.Series(role, [x for x, _ in first[role]], [y for _, y in first[role]]) for role in ("subject", "object")
    ]
    heading = ("network", "purity by role", "shuffled roles", "95 % of shuffles are below", "role by previous word")
    axes = ("first principal component", "second principal component")
    return lab.Shown(
        tables=(lab.Table(heading, rows),),
        figures=(lab.Lines("States after the word “boy”, first seed", *axes, series, points=True),),
    )


CHAPTER = lab.Chapter(
    claim="S3-6",
    equation="h_t = GRU(x_t, h_{t−1}), x_t the same at each occurrence of a word",
    method=(
        "A GRU with 32 units learns to predict the next word of a generated language. In it the opening word of a "
        "sentence decides whether its last noun is subject or object. Looked at are nouns right behind a verb that "
        "takes the same nouns in both roles, so that the previous word tells nothing. The states of each of eight "
        "words at such places are put in two clusters without labels. The claim holds if the clusters agree with the "
        "roles better than with 95 % of shuffled roles, and better than before training. It can only hold where later "
        "words depend on the role, as the last word of each sentence does here."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
