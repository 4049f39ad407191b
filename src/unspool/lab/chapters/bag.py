"""A bag of words against a recurrent network, where only the order of words decides."""

from __future__ import annotations

import statistics
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unspool import lab
from unspool import nn as unspool_nn
from unspool.lab.data import order_intents

INTENTS = ("offer", "request")
#: Sentences that are the same bag of words.
TWINS = (("我", "爱", "你"), ("你", "爱", "我"))
MODELS = ("bag", "Elman", "GRU")


class Bag(nn.Module):
    """The sum of the words' vectors."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.output_size = size

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        valid = torch.arange(len(x)).view(-1, 1, 1) < lengths.view(1, -1, 1)
        return (x * valid).sum(0)


class LastState(nn.Module):
    """The state of a recurrent layer after the last word."""

    def __init__(self, cell: str, size: int) -> None:
        super().__init__()
        self.layer = unspool_nn.Recurrent(cell, size, size)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        state: Tensor = self.layer(x, lengths=lengths)[1]
        return state


class Classifier(nn.Module):
    """Words → vectors → one vector for the sentence → intent, by a network with a hidden layer."""

    def __init__(self, kind: str, V: int, size: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, size)
        self.reader = Bag(size) if kind == "bag" else LastState(kind.lower(), size)
        self.head = nn.Sequential(nn.Linear(size, 32), nn.ReLU(), nn.Linear(32, 2))

    def vector(self, ids: Tensor, lengths: Tensor) -> Tensor:
        found: Tensor = self.reader(self.embedding(ids), lengths)
        return found

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        logits: Tensor = self.head(self.vector(ids, lengths))
        return logits


def to_tensors(sentences: list[list[str]], place: dict[str, int]) -> tuple[Tensor, Tensor]:
    """Ids (time, batch) and lengths."""
    lengths = torch.tensor([len(words) for words in sentences])
    rows = [torch.tensor([place[word] for word in words]) for words in sentences]
    return nn.utils.rnn.pad_sequence(rows), lengths


def train(kind: str, steps: int, seed: int) -> dict[str, Any]:
    """The accuracy on new sentences, and how far apart the vectors of the twins are, relative to their norm."""
    torch.manual_seed(seed)
    labelled = order_intents(6000, seed=seed, separator=" ")
    known = dict(labelled[:2000])
    labelled = [*labelled[:2000], *(one for one in labelled[2000:] if one[0] not in known)]
    sentences = [text.split() for text, _ in labelled]
    targets = torch.tensor([INTENTS.index(intent) for _, intent in labelled])
    words = sorted({word for words in (*sentences, *TWINS) for word in words})
    place = {word: number for number, word in enumerate(words)}
    ids, lengths = to_tensors(sentences, place)
    model = Classifier(kind, len(words))

    def loss(step: int) -> Tensor:
        rows = torch.arange(step * 64, step * 64 + 64) % 2000
        return cross_entropy(model(ids[:, rows], lengths[rows]), targets[rows])

    lab.fit(model, loss, steps)
    with torch.no_grad():
        one, other = model.vector(*to_tensors([list(words) for words in TWINS], place))
        found = lab.accuracy(model(ids[:, 2000:], lengths[2000:]), targets[2000:])
    return {"accuracy": found, "apart": float((one - other).norm() / one.norm())}


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(300, 600)
    runs: dict[str, list[dict[str, Any]]] = {kind: [] for kind in MODELS}
    for seed in study.seeds():
        for kind, found in runs.items():
            found.append(train(kind, steps, seed))
    return runs


def judge(found: lab.Found) -> lab.Verdict:
    recurrent = [*found["Elman"], *found["GRU"]]
    return lab.all_of(
        lab.below("accuracy of the bag", [run["accuracy"] for run in found["bag"]], 0.55),
        lab.above("accuracy of the GRU", [run["accuracy"] for run in found["GRU"]], 0.95),
        lab.at_most("distance of 我爱你 and 你爱我 in the bag", max(run["apart"] for run in found["bag"]), 1e-6),
        lab.at_least(
            "distance of 我爱你 and 你爱我 in recurrent networks", min(run["apart"] for run in recurrent), 0.1
        ),
    )


def show(found: lab.Found) -> lab.Shown:
    means = {
        part: [statistics.fmean(run[part] for run in found[kind]) for kind in MODELS] for part in ("accuracy", "apart")
    }
    rows = list(zip(MODELS, means["accuracy"], means["apart"], strict=True))
    bars = [lab.Series("accuracy", MODELS, means["accuracy"])]
    return lab.Shown(
        tables=(lab.Table(("model", "accuracy", "distance of 我爱你 and 你爱我 by norm"), rows),),
        figures=(lab.Bars("Intents that only order decides", "accuracy", bars, marks=(lab.Mark("chance", 0.5),)),),
        remarks=(
            "On new sentences the bag is below chance: if it has learned the same words in the other order, it gives "
            "the intent of that sentence, which is the wrong one.",
        ),
    )


CHAPTER = lab.Chapter(
    claim="S3-1",
    equation="bag: v = Σ_t x_t\nrecurrent: v = h_T, h_t = f(h_{t−1}, x_t)",
    method=(
        "Offers (明天我送你) and requests (明天你送我) have the same words, and the intent is drawn independently "
        "of them. A bag of word vectors with a network on top, a simple RNN and a GRU learn 2000 "
        "sentences and are tested on others. The claim holds if the bag gives 我爱你 and 你爱我 one vector and "
        "stays below an accuracy of 0.55, while recurrent networks give two vectors and the GRU is above "
        "0.95."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
