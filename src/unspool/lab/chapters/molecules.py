"""Molecules: one network reads formulas of any length, and predicts a property from its last state."""

from __future__ import annotations

import statistics

import numpy as np
import torch
from torch import Tensor, nn

from unspool import lab
from unspool import nn as unspool_nn
from unspool.lab.data import formulas

ALPHABET = "CNOF=()"
LONGEST = 12  # atoms in training
SIZES = ((1, 4), (5, 8), (9, 12), (13, 18))
UNITS = 64
Batch = tuple[Tensor, Tensor]


def encode(texts: list[str]) -> Batch:
    """Tokens (time, batch), with 0 after the end of a text, and the lengths."""
    lengths = torch.tensor([len(text) for text in texts])
    tokens = torch.zeros(int(lengths.max()), len(texts), dtype=torch.long)
    for place, text in enumerate(texts):
        tokens[: len(text), place] = torch.tensor([ALPHABET.index(character) + 1 for character in text])
    return tokens, lengths


class Reader(nn.Module):
    """A GRU over the characters, and a linear head on its last state."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(ALPHABET) + 1, 16)
        self.layer = unspool_nn.Recurrent("gru", 16, UNITS)
        self.head = nn.Linear(UNITS, 1)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        last = self.layer(self.embedding(tokens), lengths=lengths)[1]
        predicted: Tensor = self.head(last).squeeze(-1)
        return predicted


def train(texts: list[str], y: Tensor, updates: int, seed: int) -> Reader:
    torch.manual_seed(seed)
    reader = Reader()
    tokens, lengths = encode(texts)

    def loss(_step: int) -> Tensor:
        rows = torch.randint(0, len(texts), (64,))
        longest = int(lengths[rows].max())
        error: Tensor = (reader(tokens[:longest, rows], lengths[rows]) - y[rows]).square().mean()
        return error

    lab.fit(reader, loss, updates * 2 // 3, lr=5e-3)
    lab.fit(reader, loss, updates // 3, lr=1e-3)
    return reader


def bag(texts: list[str]) -> np.ndarray:
    """How often each character occurs, and 1."""
    return np.array([[*(text.count(character) for character in ALPHABET), 1] for text in texts], np.float64)


def explained(predicted: np.ndarray, y: np.ndarray) -> float:
    """R²: the fraction of the variance that is predicted."""
    return 1 - float(np.square(predicted - y).mean() / y.var())


def compare(count: int, updates: int, seed: int) -> dict[str, list[float]]:
    """R² of the network and of the best linear function of the letters' counts, by the number of atoms."""
    texts, y = formulas(count, 1, LONGEST, seed)
    reader = train(texts, torch.as_tensor(y), updates, seed)
    weights = np.linalg.lstsq(bag(texts), y, rcond=None)[0]
    found: dict[str, list[float]] = {"network": [], "bag": []}
    for least, most in SIZES:
        new, true = formulas(1000, least, most, 1_000_000 + seed)
        with torch.no_grad():
            found["network"].append(explained(reader(*encode(new)).numpy(), true))
        found["bag"].append(explained(bag(new) @ weights, true))
    return found


def measure(study: lab.Study) -> lab.Found:
    count, updates = study.choose((4000, 900), (8000, 2400))
    runs = [compare(count, updates, seed) for seed in study.seeds()]
    return {name: [run[name] for run in runs] for name in ("network", "bag")}


def judge(found: lab.Found) -> lab.Verdict:
    known = [statistics.fmean(run[:3]) for run in found["network"]]
    counted = [statistics.fmean(run[:3]) for run in found["bag"]]
    return lab.all_of(
        lab.above("R² of the network at lengths as in training", known, 0.9),
        lab.above(
            "R² of the network beyond that of counted letters", [a - b for a, b in zip(known, counted, strict=True)]
        ),
        lab.above("R² of the network at formulas longer than in training", [run[3] for run in found["network"]], 0.8),
    )


def show(found: lab.Found) -> lab.Shown:
    names = [f"{least}–{most}" for least, most in SIZES]
    means = {name: [statistics.fmean(each) for each in zip(*runs, strict=True)] for name, runs in found.items()}
    series = [
        lab.Series("network", [most for _, most in SIZES], means["network"]),
        lab.Series("letters counted", [most for _, most in SIZES], means["bag"]),
    ]
    rows = list(zip(names, means["network"], means["bag"], strict=True))
    return lab.Shown(
        tables=(lab.Table(("atoms", "R² of the network", "R² of counted letters"), rows),),
        figures=(
            lab.Lines(
                "Property of new formulas",
                "atoms, at most",
                "R²",
                series,
                marks=(lab.Mark("largest in training", LONGEST, vertical=True),),
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S1-14",
    equation="h_t = GRU(x_t, h_{t−1}), y = v · h_T + c, for any T",
    method=(
        "Formulas in a small part of SMILES have a property that is a sum over atoms. What an atom adds depends on "
        "its bonds, which may be far apart in the text. A GRU reads formulas of 1 to 12 atoms character by character "
        "and predicts the property from its last state. The claim holds if R² on new formulas is above 0.9 and above "
        "that of the best linear function of the letters' counts, and above 0.8 on formulas of 13 to 18 atoms."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
