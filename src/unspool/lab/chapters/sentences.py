"""Perplexity of good and bad sentences, and of short and long texts, by a character model of English text."""

from __future__ import annotations

import math
import statistics
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unspool import lab
from unspool import nn as unspool_nn
from unspool.lab.data import encode, python_reference, windows
from unspool.language import Message

SENTENCES = ("It is raining outside", "It is raining banana tree", "It is raining piouw;kcj pwepoiut")
LENGTHS = (25, 50, 100, 200, 400, 800)


class CharacterModel(nn.Module):
    """Predicts the next character by a GRU."""

    def __init__(self, V: int) -> None:
        super().__init__()
        self.embedding, self.layer = nn.Embedding(V, 32), unspool_nn.Recurrent("gru", 32, 128)
        self.head = nn.Linear(128, V)

    def surprise(self, pieces: Tensor) -> Tensor:
        """−log P of every character but the first, (T, count)."""
        output, _ = self.layer(self.embedding(pieces[:-1]))
        return cross_entropy(self.head(output).movedim(-1, 1), pieces[1:], reduction="none")


def train(steps: int, seed: int) -> dict[str, Any]:
    """The surprise at the sentences, and at the beginnings of pieces of text that the model has not seen."""
    torch.manual_seed(seed)
    tokens, alphabet = encode(python_reference())
    known, new = tokens[: len(tokens) * 9 // 10], tokens[len(tokens) * 9 // 10 :]
    model = CharacterModel(len(alphabet))

    def loss(step: int) -> Tensor:
        return model.surprise(torch.as_tensor(windows(known, 64, 16, seed * 10_000 + step))).mean()

    lab.fit(model, loss, steps, lr=1e-2)
    with torch.no_grad():
        texts = [torch.as_tensor(encode(f"\n{sentence}", alphabet)[0]).unsqueeze(1) for sentence in SENTENCES]
        pieces = model.surprise(torch.as_tensor(windows(new, max(LENGTHS), 200, seed=1)))
        return {
            "sentences": [float(model.surprise(text).mean()) for text in texts],
            "lengths": [float(pieces[:length].sum(0).mean()) for length in LENGTHS],
        }


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(700, 1500)
    return {"seeds": [train(steps, seed) for seed in study.seeds()]}


def judge(found: lab.Found) -> lab.Verdict:
    sentences = [seed["sentences"] for seed in found["seeds"]]
    lengths = [seed["lengths"] for seed in found["seeds"]]
    return lab.all_of(
        lab.above("surprise at “banana tree” minus surprise at “outside”", [each[1] - each[0] for each in sentences]),
        lab.above("surprise at “piouw” minus surprise at “banana tree”", [each[2] - each[1] for each in sentences]),
        lab.below("log-likelihood of 800 characters minus that of 25", [each[0] - each[-1] for each in lengths]),
        lab.below(
            "perplexity of 800 characters by that of 25",
            [math.exp(each[-1] / LENGTHS[-1] - each[0] / LENGTHS[0]) for each in lengths],
            1.0,
        ),
    )


def show(found: lab.Found) -> lab.Shown:
    mean = {
        part: [statistics.fmean(each) for each in zip(*(seed[part] for seed in found["seeds"]), strict=True)]
        for part in ("sentences", "lengths")
    }
    perplexities = [math.exp(total / length) for total, length in zip(mean["lengths"], LENGTHS, strict=True)]
    by_seed = [
        lab.Series(
            Message("seed {number}", number=number), SENTENCES, [math.exp(surprise) for surprise in seed["sentences"]]
        )
        for number, seed in enumerate(found["seeds"])
    ]
    rows = [
        (length, -total, perplexity)
        for length, total, perplexity in zip(LENGTHS, mean["lengths"], perplexities, strict=True)
    ]
    sentences = [
        (sentence, -surprise * len(sentence), math.exp(surprise))
        for sentence, surprise in zip(SENTENCES, mean["sentences"], strict=True)
    ]
    return lab.Shown(
        tables=(
            lab.Table(("sentence", "log-likelihood", "perplexity per character"), sentences),
            lab.Table(("characters", "log-likelihood", "perplexity per character"), rows),
        ),
        figures=(
            lab.Bars("Perplexity of three sentences", "perplexity per character", by_seed, log_y=True),
            lab.Lines(
                "Perplexity of new text",
                "characters",
                "perplexity per character",
                [lab.Series("perplexity", LENGTHS, perplexities)],
                log_x=True,
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S2-3",
    equation="surprise = −1/n Σ_t log P(x_t | x_{t−1}, …, x_1)\nperplexity = exp(surprise)",
    method=(
        "A GRU with 128 units learns to predict the characters of the Python reference, in which “raining” does not "
        "occur. It then reads the three sentences, and pieces of unseen text up to lengths of 25 to 800 characters. "
        "The claim holds if the perplexities of the sentences are in the document's order, if the log-likelihood of a "
        "long text is below that of its beginning, and if its perplexity is at most a tenth above."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
