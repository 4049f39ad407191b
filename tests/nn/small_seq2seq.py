"""Small Seq2Seq models, and the slow and plain ways to know what they must decode."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.variants import PUBLISHED, ThreeStates
from torch import Tensor
from torch.nn import functional

from unspool.cells import CATALOGUE, LSTM, Jordan, Skip
from unspool.decoding.sequences import Decoded
from unspool.nn.seq2seq import Seq2Seq

PADDING, START, END = 0, 1, 2
LETTERS = (3, 4, 5)
SIZE = 6

CELLS: dict[str, Any] = {name: name for name in CATALOGUE} | {
    "user's": ThreeStates,
    "lstm, projected": LSTM(projection=2),
    "jordan, narrow": Jordan(output_size=3),
    "skip, span 3": Skip(span=3),
}
each_cell = pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, id=name, marks=[pytest.mark.long] * (name in PUBLISHED)) for name, cell in CELLS.items()],
)


def make(cell: Any = "lstm", layers: int = 2, seed: int = 0, scale: float = 3.0, **options: Any) -> Seq2Seq:
    """A small float64 model whose weights are large enough for its choices to differ."""
    torch.manual_seed(seed)
    model = Seq2Seq(7, SIZE, 4, 4, layers, cell=cell, dtype=torch.float64, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


def sources(rows: int = 5, steps: int = 4, seed: int = 1) -> Tensor:
    return torch.randint(1, 7, (rows, steps), generator=torch.Generator().manual_seed(seed))


def log_probabilities(model: Seq2Seq, source: Tensor, prefix: tuple[int, ...]) -> Tensor:
    """(size,): of what follows a prefix, from a teacher-forced pass over it all."""
    with torch.no_grad():
        logits = model(source.unsqueeze(0), torch.tensor([[START, *prefix]]), [len(source)])
    return functional.log_softmax(logits[0, -1], -1)


def teacher_forced(model: Seq2Seq, source: Tensor, decoded: Decoded) -> float:
    """The log-probability of a decoded sequence by one teacher-forced pass."""
    following = [*decoded.tokens, *([END] if decoded.finished else [])]
    with torch.no_grad():
        logits = model(source.unsqueeze(0), torch.tensor([[START, *following[:-1]]]), [len(source)])
    return -float(functional.cross_entropy(logits[0], torch.tensor(following), reduction="sum"))


def all_sequences(model: Seq2Seq, source: Tensor, max_length: int) -> Iterator[Decoded]:
    """Every sequence that decoding could give, with its log-probability."""
    for length in range(max_length + 1):
        for tokens in itertools.product(LETTERS, repeat=length):
            decoded = Decoded(tokens, 0.0, length < max_length)
            yield Decoded(tokens, teacher_forced(model, source, decoded), decoded.finished)


def score(decoded: Decoded, penalty: float) -> float:
    return float(decoded.log_probability / (len(decoded.tokens) + decoded.finished) ** penalty)


def assert_same(ours: list[Decoded], theirs: list[Decoded], tolerance: float = 1e-10) -> None:
    assert [(one.tokens, one.finished) for one in ours] == [(one.tokens, one.finished) for one in theirs]
    assert [one.log_probability for one in ours] == pytest.approx(
        [one.log_probability for one in theirs], abs=tolerance
    )


def plain_beams(model: Seq2Seq, source: Tensor, max_length: int, width: int, penalty: float) -> list[Decoded]:
    """Beam search that keeps no states and stops no sooner than it must."""
    live, done = [Decoded()], list[Decoded]()
    for _ in range(max_length):
        candidates = []
        for one in live:
            log_p = log_probabilities(model, source, one.tokens)
            for token in (END, *LETTERS):
                total = one.log_probability + float(log_p[token])
                candidates.append(
                    Decoded(one.tokens, total, True) if token == END else Decoded((*one.tokens, token), total)
                )
        candidates.sort(key=lambda one: -one.log_probability)
        kept = candidates[: width - len(done)]
        done += [one for one in kept if one.finished]
        live = [one for one in kept if not one.finished]
    return sorted(done + live, key=lambda one: -score(one, penalty))


class Table(Seq2Seq):
    """A model whose next token depends on the last one, by a table of probabilities."""

    def __init__(self, table: dict[int, dict[int, float]]) -> None:
        super().__init__(SIZE, SIZE, 1, 1, dtype=torch.float64)
        self.table = torch.full((SIZE, SIZE), 1e-9, dtype=torch.float64)
        for last, following in table.items():
            for token, p in following.items():
                self.table[last, token] = p

    def step(self, state: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        return self.table[tokens].log(), state
