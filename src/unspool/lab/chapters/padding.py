"""Padding: the document's four sentences in one batch, against each sentence alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from unspool import lab
from unspool import nn as unspool_nn

#: “I love AI”, “She is studying machine learning”, “He is a scientist”, “Deep learning models are fascinating”.
SENTENCES = ([1, 2, 3], [4, 5, 6, 7, 8], [9, 5, 10, 11], [12, 8, 13, 14, 15])
LENGTHS = [len(sentence) for sentence in SENTENCES]
CELLS = ("elman", "gru", "lstm")
V = 16


class Model(nn.Module):
    """Predicts the next word."""

    def __init__(self, cell: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(V, 8, dtype=torch.float64)
        self.layer = unspool_nn.Recurrent(cell, 8, 12, dtype=torch.float64)
        self.head = nn.Linear(12, V, dtype=torch.float64)

    def forward(self, ids: Tensor, state: Any = None, lengths: list[int] | None = None) -> tuple[Tensor, Any]:
        output, state = self.layer(self.embedding(ids), state, lengths=lengths)
        return self.head(output), state


def pad(width: int, filler: int) -> Tensor:
    """The four sentences as (width, 4), filled up with a token."""
    return torch.tensor([sentence + [filler] * (width - len(sentence)) for sentence in SENTENCES]).T


def gradients(model: Model, loss: Tensor) -> Tensor:
    """All gradients of the loss in one vector."""
    found = torch.autograd.grad(loss, list(model.parameters()))
    return torch.cat([gradient.flatten() for gradient in found])


def alone(model: Model) -> dict[str, Any]:
    """Each sentence by itself: logits, last state, and the mean loss over all predicted words."""
    logits, states, losses = [], [], []
    for sentence in SENTENCES:
        ids = torch.tensor(sentence).unsqueeze(1)
        output, state = model(ids)
        logits.append(output[:, 0])
        states.append(state)
        losses.append(cross_entropy(output[:-1, 0], ids[1:, 0], reduction="sum"))
    loss = torch.stack(losses).sum() / sum(length - 1 for length in LENGTHS)
    return {"logits": logits, "states": states, "loss": loss, "gradient": gradients(model, loss)}


def together(model: Model, width: int, filler: int, masked: bool = True) -> dict[str, Any]:
    """All sentences in a padded batch; without a mask the padding is read and predicted like a word."""
    ids = pad(width, filler)
    logits, state = model(ids, lengths=LENGTHS if masked else None)
    targets = ids[1:].clone()
    for row, length in enumerate(LENGTHS if masked else ()):
        targets[length - 1 :, row] = -100  # ignored by cross_entropy
    loss = cross_entropy(logits[:-1].flatten(0, 1), targets.flatten())
    rows = [logits[:length, row] for row, length in enumerate(LENGTHS)]
    # a state is (4, 12), or a pair of such for the LSTM
    states = [
        state[row : row + 1] if isinstance(state, Tensor) else tuple(s[row : row + 1] for s in state)
        for row in range(4)
    ]
    return {"logits": rows, "states": states, "loss": loss, "gradient": gradients(model, loss)}


def distance(one: Any, other: Any) -> float:
    """The largest difference between numbers at the same place, however nested."""
    if isinstance(one, Tensor):
        return float((one - other).detach().abs().max())
    return max(distance(a, b) for a, b in zip(one, other, strict=True))


def carried(model: Model, cut: int = 2) -> float:
    """How far the rest of a sentence, read from the carried state, is from the sentence read at once."""
    ids = torch.tensor([SENTENCES[1], SENTENCES[3]]).T
    whole, last = model(ids)
    first, state = model(ids[:cut])
    second, state = model(ids[cut:], state)
    return max(distance(torch.cat((first, second)), whole), distance(state, last))


def measure(study: lab.Study) -> lab.Found:  # noqa: ARG001
    found = []
    for cell in CELLS:
        model = Model(cell)
        expected = alone(model)
        cases = {
            "masked": together(model, 5, 0),
            "other padding": together(model, 9, 7),
            "unmasked": together(model, 5, 0, masked=False),
        }
        distances = {
            name: {part: distance(case[part], expected[part]) for part in case} for name, case in cases.items()
        }
        found.append({"cell": cell, **distances, "carried": carried(model)})
    return {"cells": found}


def largest(found: lab.Found, case: str) -> float:
    return max(float(max(cell[case].values())) for cell in found["cells"])


def judge(found: lab.Found) -> lab.Verdict:
    return lab.all_of(
        lab.at_most("largest difference by padding", largest(found, "masked"), 1e-12),
        lab.at_most("largest difference by longer padding with another token", largest(found, "other padding"), 1e-12),
        lab.at_most("largest difference by carrying the state", max(cell["carried"] for cell in found["cells"]), 1e-12),
    )


def show(found: lab.Found) -> lab.Shown:
    parts = ("logits", "states", "loss", "gradient")
    names = {
        "masked": "[1, 2, 3, 0, 0], masked",
        "other padding": "padded with 7 to length 9, masked",
        "unmasked": "not masked",
    }
    rows = [
        (cell["cell"], title, *(cell[case][part] for part in parts))
        for cell in found["cells"]
        for case, title in names.items()
    ]
    floor = 1e-17  # zero has no place on a logarithmic axis
    cells = [cell["cell"] for cell in found["cells"]]
    bars = [
        lab.Series(title, cells, [max(floor, *cell[case].values()) for cell in found["cells"]])
        for case, title in names.items()
    ]
    heading = ("cell", "batch", "logits", "last states", "loss", "gradient")
    return lab.Shown(
        tables=(
            lab.Table(heading, rows),
            lab.Table(("cell", "state carried over"), [(cell["cell"], cell["carried"]) for cell in found["cells"]]),
        ),
        figures=(
            lab.Bars(
                "Largest difference from each sentence alone",
                "difference",
                bars,
                log_y=True,
                marks=(lab.Mark("tolerance", 1e-12),),
            ),
        ),
        remarks=("Without a mask, the padding is read as a word: last states, loss and gradients change.",),
    )


CHAPTER = lab.Chapter(
    claim="S2-5",
    equation="L = 1/N Σ_i Σ_{t < T_i} −log P(x_{i,t+1} | x_{i,1}, …, x_{i,t})",
    method=(
        "The document's four sentences, with the document's ids, go through a model of the next word: alone, and as "
        "one padded batch with lengths and a masked loss. Logits, last states, loss and all gradients are compared, "
        "also with longer padding by another token, and with the padding left unmasked. A sentence is also read in two "
        "pieces, the state carried over. The claim holds if nothing differs by more than 1e−12 in double precision."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
