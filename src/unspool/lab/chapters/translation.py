"""Encoder–decoders of one, two and three layers that translate words into reversed words."""

from __future__ import annotations

import statistics
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unspool import lab
from unspool import nn as unspool_nn
from unspool.lab.data import reversal

#: Name → layers and units per layer: three of one width, and one layer with as many parameters as the deepest has.
MODELS = {"1 layer": (1, 32), "2 layers": (2, 32), "3 layers": (3, 32), "1 wide layer": (1, 67)}
START, END, PADDING = 1, 2, 0
TRAINING, CHECKS = 8000, 10


def to_ids(texts: list[str], place: dict[str, int]) -> Tensor:
    """Texts as (count, time): start, characters, end, padding."""
    rows = [torch.tensor([START, *(place[character] for character in text), END]) for text in texts]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)


def read_pairs() -> tuple[Tensor, Tensor, int]:
    """Words, reversed words, and the number of different tokens."""
    pairs = reversal(TRAINING + 500, longest=6)
    alphabet = sorted({character for pair in pairs for text in pair for character in text})
    place = {character: number for number, character in enumerate(alphabet, start=3)}
    sources, targets = ([pair[side] for pair in pairs] for side in range(2))
    return to_ids(sources, place), to_ids(targets, place), len(alphabet) + 3


def train(name: str, steps: int, seed: int) -> dict[str, Any]:
    """The loss per character on new pairs during training, and in the end the fraction translated without a mistake."""
    torch.manual_seed(seed)
    source, target, V = read_pairs()
    layers, width = MODELS[name]
    model = unspool_nn.Seq2Seq(V, V, 16, width, layers, cell="gru", start=START, end=END, padding=PADDING)

    def loss_of(rows: Tensor) -> Tensor:
        logits = model(source[rows], target[rows, :-1])
        return cross_entropy(logits.flatten(0, 1), target[rows, 1:].flatten(), ignore_index=PADDING)

    chance = torch.Generator().manual_seed(seed)  # the same pairs for every model
    tested = torch.arange(TRAINING, TRAINING + 500)
    losses = []
    for _ in range(CHECKS):
        lab.fit(model, lambda _: loss_of(torch.randint(0, TRAINING, (32,), generator=chance)), steps // CHECKS, lr=5e-3)
        with torch.no_grad():
            losses.append(float(loss_of(tested)))
    written = model.greedy(source[tested], max_length=8)
    right = [
        [START, *one.tokens, END] == row[row != PADDING].tolist()
        for one, row in zip(written, target[tested], strict=True)
    ]
    parameters = sum(each.numel() for each in model.parameters())
    return {"losses": losses, "right": statistics.fmean(right), "parameters": parameters}


def measure(study: lab.Study) -> lab.Found:
    steps = study.choose(500, 1200)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in MODELS}
    for seed in study.seeds():
        for name, found in runs.items():
            found.append(train(name, steps, seed))
    return {"steps": steps, "runs": runs}


def differences(found: lab.Found, deep: str, shallow: str) -> list[float]:
    """The last loss of one model minus that of another, by seed."""
    pairs = zip(found["runs"][deep], found["runs"][shallow], strict=True)
    return [one["losses"][-1] - other["losses"][-1] for one, other in pairs]


def judge(found: lab.Found) -> lab.Verdict:
    return lab.all_of(
        lab.below(
            "loss of 3 layers minus loss of 1 layer of the same width", differences(found, "3 layers", "1 layer")
        ),
        lab.below(
            "loss of 3 layers minus loss of 1 layer with as many parameters",
            differences(found, "3 layers", "1 wide layer"),
        ),
    )


def show(found: lab.Found) -> lab.Shown:
    each = found["steps"] // CHECKS
    updates = [each * (check + 1) for check in range(CHECKS)]
    rows, series = [], []
    for name, runs in found["runs"].items():
        curve = [statistics.fmean(losses) for losses in zip(*(run["losses"] for run in runs), strict=True)]
        series.append(lab.Series(name, updates, curve))
        rows.append((name, runs[0]["parameters"], curve[-1], statistics.fmean(run["right"] for run in runs)))
    return lab.Shown(
        tables=(
            lab.Table(("encoder and decoder", "parameters", "loss per character", "words without a mistake"), rows),
        ),
        figures=(lab.Lines("Loss on words drawn anew", "updates", "loss per character", series, log_y=True),),
    )


CHAPTER = lab.Chapter(
    claim="S2-7",
    equation="P(y | x) = Π_t P(y_t | y_{t−1}, …, y_1, x)",
    method=(
        "Encoder–decoders write words of up to six letters backward, letter by letter: the first letter that is read "
        "is the last that is written. All see the same pairs in the same order. The claim holds if after training the "
        "loss of three layers on words drawn anew is below that of one layer of the same width, and below that of one "
        "layer with as many parameters: otherwise it is size that helps, and not depth. Deep models learn slowly at "
        "first, so that the number of updates matters, too."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
