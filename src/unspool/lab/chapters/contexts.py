"""One word, many states: 周杰伦 who is played and who is liked, 苹果 that tastes and that rises."""

from __future__ import annotations

import statistics
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unspool import lab
from unspool import nn as unspool_nn
from unspool.lab.data import chinese_commands

#: Word → the intents of the sentences that give it two meanings.
WORDS = {"周杰伦": ("音乐播放", "歌手评价"), "苹果": ("食物评价", "股票行情")}
READERS = ("forward", "bidirectional")
PADDING, SIZE = 0, 24


class Tagger(nn.Module):
    """Says the intent of the sentence at each of its words."""

    def __init__(self, reader: str, V: int, intents: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, SIZE)
        kind = unspool_nn.Bidirectional if reader == "bidirectional" else unspool_nn.Recurrent
        self.layer = kind("gru", SIZE, SIZE)
        self.head = nn.Linear(self.layer.output_size, intents)

    def states(self, ids: Tensor) -> Tensor:
        """One state per word, (time, batch, width)."""
        found: Tensor = self.layer(self.embedding(ids), lengths=(ids != PADDING).sum(0))[0]
        return found

    def forward(self, ids: Tensor, intents: Tensor) -> Tensor:
        logits = self.head(self.states(ids))
        targets = intents.expand(ids.shape).masked_fill(ids == PADDING, -100)
        return cross_entropy(logits.flatten(0, 1), targets.flatten())


class Sentences:
    """Commands as ids (time, count), with their intents."""

    def __init__(self, count: int, seed: int) -> None:
        labelled = [(text.split(), intent) for text, intent in chinese_commands(count, seed, separator=" ")]
        self.names = sorted({intent for _, intent in labelled})
        words = sorted({word for sentence, _ in labelled for word in sentence})
        self.place = {word: number for number, word in enumerate(words, start=1)}
        rows = [torch.tensor([self.place[word] for word in sentence]) for sentence, _ in labelled]
        self.ids = nn.utils.rnn.pad_sequence(rows, padding_value=PADDING)
        self.intents = torch.tensor([self.names.index(intent) for _, intent in labelled])

    def with_word(self, word: str, intent: str) -> tuple[Tensor, Tensor]:
        """The different sentences of an intent that have a word, and the step at which it stands."""
        chosen = (self.ids == self.place[word]).any(0) & (self.intents == self.names.index(intent))
        ids = self.ids[:, chosen].unique(dim=1)
        return ids, (ids == self.place[word]).int().argmax(0)


def separation(model: Tagger, sentences: Sentences, word: str) -> float:
    """The mean distance of a word's states between its two meanings, by that within one meaning."""
    groups = []
    for intent in WORDS[word]:
        ids, steps = sentences.with_word(word, intent)
        with torch.no_grad():
            groups.append(model.states(ids)[steps, torch.arange(ids.shape[1])])
    # a state has no distance to itself: the pairs within a meaning are n (n − 1)
    within = [float(torch.cdist(states, states).sum()) / (len(states) * (len(states) - 1)) for states in groups]
    one, other = groups
    return float(torch.cdist(one, other).mean()) / statistics.fmean(within)


def same_beginning(model: Tagger, sentences: Sentences) -> float:
    """How far apart 苹果 is at the beginnings of 苹果味道不错 and 苹果股票大涨."""
    pair = [("苹果", "味道", "不错"), ("苹果", "股票", "大涨")]
    ids = torch.tensor([[sentences.place[word] for word in words] for words in pair]).T
    with torch.no_grad():
        one, other = model.states(ids)[0]
    return float((one - other).norm() / one.norm())


def train(reader: str, steps: int, seed: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    sentences = Sentences(3000, seed)
    model = Tagger(reader, len(sentences.place) + 1, len(sentences.names))
    before = {word: separation(model, sentences, word) for word in WORDS}

    def loss(step: int) -> Tensor:
        rows = torch.arange(step * 64, step * 64 + 64) % 3000
        found: Tensor = model(sentences.ids[:, rows], sentences.intents[rows])
        return found

    lab.fit(model, loss, steps, lr=5e-3)
    after = {word: separation(model, sentences, word) for word in WORDS}
    return {"before": before, "after": after, "beginning": same_beginning(model, sentences)}


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(200, 500)
    runs: dict[str, list[dict[str, Any]]] = {reader: [] for reader in READERS}
    for seed in study.seeds():
        for reader, found in runs.items():
            found.append(train(reader, steps, seed))
    return runs


def judge(found: lab.Found) -> lab.Verdict:
    played, tasted = (found[reader] for reader in READERS)
    gained = [
        min(one["after"]["周杰伦"] - one["before"]["周杰伦"], other["after"]["苹果"] - other["before"]["苹果"])
        for one, other in zip(played, tasted, strict=True)
    ]
    return lab.all_of(
        lab.above(
            "周杰伦 between contexts by within, forward network", [run["after"]["周杰伦"] for run in played], 2.0
        ),
        lab.above(
            "苹果 between contexts by within, bidirectional network", [run["after"]["苹果"] for run in tasted], 2.0
        ),
        lab.above("what training adds to these ratios", gained),
        lab.at_most(
            "distance of 苹果 before its context, forward network", max(run["beginning"] for run in played), 1e-6
        ),
    )


def show(found: lab.Found) -> lab.Shown:
    def mean(reader: str, when: str, word: str) -> float:
        return statistics.fmean(run[when][word] for run in found[reader])

    rows = [
        (word, reader, mean(reader, "before", word), mean(reader, "after", word))
        for word in WORDS
        for reader in READERS
    ]
    bars = [lab.Series(reader, list(WORDS), [mean(reader, "after", word) for word in WORDS]) for reader in READERS]
    beginnings = [(reader, statistics.fmean(run["beginning"] for run in found[reader])) for reader in READERS]
    return lab.Shown(
        tables=(
            lab.Table(("word", "network", "between by within, untrained", "between by within, trained"), rows),
            lab.Table(("network", "distance of 苹果 in 苹果味道不错 and 苹果股票大涨, by norm"), beginnings),
        ),
        figures=(
            lab.Bars(
                "Distance of a word's states between two meanings, by that within one",
                "ratio",
                bars,
                marks=(lab.Mark("no difference", 1.0), lab.Mark("threshold", 2.0)),
            ),
        ),
        remarks=(
            "The vector that goes in is the same everywhere: its distance is 0. Where the context comes "
            "after the word, as for 苹果, only a network that reads backward, too, can know it at the "
            "word.",
        ),
    )


CHAPTER = lab.Chapter(
    claim="S3-4",
    equation="type: x_t = E[w]\ntoken: h_t = f(h_{t−1}, x_t)",
    method=(
        "GRUs learn to say the intent of Chinese commands at each word. 周杰伦 stands in many sentences "
        "after 播放 and after 我喜欢; 苹果 stands before words about taste or about shares. The distances of a "
        "word's states between the two meanings are compared with those within one meaning, where other "
        "words of the sentences differ. The claim holds if they are more than twice as large, and larger "
        "than before training: for 周杰伦 in a forward network, and for 苹果, whose context follows, in a "
        "bidirectional one; a forward network must have the same state for both."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
