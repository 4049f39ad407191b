"""Five small tasks for one recurrence: parity, the word problem of S5, copying, digits by pixels, and Shakespeare.

Each task trains one model for a number of CPU seconds of this process and returns its scores. The model is the same
everywhere: an embedding of 64 numbers (of pixels: a linear map), the recurrent layers, and a linear head.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import state_tracking
import torch
from libraries import update
from torch import Tensor, nn

import unspool.nn
from unspool.cells import Cell, find_cell
from unspool.errors import DataError
from unspool.lab.data import copy_memory, digits, encode
from unspool.learning.bptt import detach

INPUTS = 64
#: Cells in which no nonlinear function of the whole state leads to the next state. They are published in blocks with a
#: normalization and a nonlinear function behind the recurrence, several of which are stacked.
STACKED = (
    *("mingru", "minlstm", "indrnn", "sru", "qrnn", "unicornn", "lru", "rg-lru", "s4d"),
    *("mlstm", "gla", "deltanet", "rwkv7"),
)
#: Shakespeare: streams side by side, and steps of an update; steps of one call in the evaluation.
STREAMS, BPTT, READ = 32, 64, 256
#: Copying: steps of the pause, symbols to repeat, and different symbols.
PAUSE, LENGTH, SYMBOLS = 40, 10, 8
Scores = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """One recurrence and what it is given."""

    cell: str
    hidden: int
    seconds: float
    seed: int
    lr: float
    text: Path | None
    mnist: Path | None


def layers_of(cell: str) -> int:
    """Two layers for recurrences that need depth, one for all others."""
    return 2 if cell in STACKED else 1


def count_parameters(cell: Cell, layers: int, hidden: int) -> int:
    """The numbers that the recurrent layers learn."""
    return sum(cell.count_parameters(size, hidden) for size in [INPUTS, *[hidden] * (layers - 1)])


def choose_hidden(cell: str, parameters: int) -> int:
    """The width at which the recurrent layers have nearest to this many parameters."""
    found, layers = find_cell(cell), layers_of(cell)
    low, high = 1, 2
    while count_parameters(found, layers, high) < parameters:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count_parameters(found, layers, middle) < parameters else (low, middle)
    return min(low, high, key=lambda hidden: abs(count_parameters(found, layers, hidden) - parameters))


class Reader(nn.Module):
    """Tokens (time, batch), or numbers (time, batch, 1) where `tokens` is None → logits (time, batch, outputs)."""

    def __init__(self, cell: str, hidden: int, tokens: int | None, outputs: int) -> None:
        super().__init__()
        layers = layers_of(cell)
        self.front = nn.Linear(1, INPUTS) if tokens is None else nn.Embedding(tokens, INPUTS)
        sizes = [INPUTS, *[hidden] * (layers - 1)]
        self.layers = nn.ModuleList(unspool.nn.Recurrent(cell, size, hidden) for size in sizes)
        self.behind = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.GELU()) if layers > 1 else nn.Identity() for _ in sizes
        )
        self.head = nn.Linear(hidden, outputs)

    def read(self, x: Tensor, states: list[Any] | None = None) -> tuple[Tensor, list[Any]]:
        """Logits, and the states of all layers."""
        x, ended = self.front(x), []
        for layer, behind, state in zip(self.layers, self.behind, states or [None] * len(self.layers), strict=True):
            x, last = layer(x, state)
            x = behind(x)
            ended.append(last)
        return self.head(x), ended

    def forward(self, x: Tensor) -> Tensor:
        return self.read(x)[0]


class Budget:
    """Numbers updates until the CPU seconds of this process are used; other work on the machine does not count."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.updates, self.begun = seconds, 0, time.process_time()

    @property
    def used(self) -> float:
        """CPU seconds since the start."""
        return time.process_time() - self.begun

    def __iter__(self) -> Iterator[int]:
        while self.used < self.seconds:
            yield self.updates
            self.updates += 1

    def report(self) -> Scores:
        return {"updates": self.updates, "used": round(self.used, 1)}


def start(asked: Question, tokens: int | None, outputs: int, example: Tensor) -> tuple[Reader, Budget]:
    """A new model whose kernels are compiled, and the budget, which begins now."""
    torch.manual_seed(asked.seed)
    model = Reader(asked.cell, asked.hidden, tokens, outputs)
    model(example).sum().backward()
    model.zero_grad(set_to_none=True)
    return model, Budget(asked.seconds)


def learn(model: Reader, budget: Budget, lr: float, loss: Callable[[int], Tensor]) -> None:
    """Updates with Adam, whose learning rate falls linearly to 0 at the end of the budget."""
    rule = torch.optim.Adam(model.parameters(), lr)
    for step in budget:
        for group in rule.param_groups:
            group["lr"] = lr * max(0.0, 1 - budget.used / budget.seconds)
        value = loss(step)
        if not bool(value.isfinite()):
            raise FloatingPointError(f"loss {float(value)} after {step} updates")
        update(model, rule, value)


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())


def track(task: str, batch_size: int, generators: bool, asked: Question) -> Scores:
    """A word problem by the curriculum of state_tracking.py: the length reached, and accuracies at the last step."""
    settings = argparse.Namespace(
        task=task, lr=asked.lr / 3, batch_size=batch_size, seed=asked.seed, generators=generators
    )
    states = state_tracking.STATES[task]
    example = state_tracking.batch(task, 2, batch_size, 0, generators)[0]
    model, budget = start(asked, 2 if generators else states, states, example)
    reached = state_tracking.train(model, settings, budget)
    report = budget.report()
    if not all(bool(each.isfinite().all()) for each in model.parameters()):
        raise FloatingPointError(f"weights are not finite after {budget.updates} updates")
    tested = {T: state_tracking.score(model, T, settings) for T in {*state_tracking.TESTED, reached}}
    return {**report, "length": reached, "accuracy": {str(T): tested[T] for T in sorted(tested)}}


def track_parity(asked: Question) -> Scores:
    return track("parity", 64, False, asked)


def track_two_letters(asked: Question) -> Scores:
    return track("S5", 64, True, asked)


def track_permutations(asked: Question) -> Scores:
    return track("S5", 256, False, asked)


def copying(asked: Question) -> Scores:
    """The fraction of symbols that are repeated right after a pause; the loss is that of those steps alone."""

    def batch(count: int, seed: int) -> tuple[Tensor, Tensor]:
        x, y = copy_memory(PAUSE, count, LENGTH, SYMBOLS, seed)
        return torch.as_tensor(x), torch.as_tensor(y[-LENGTH:])

    def loss(step: int) -> Tensor:
        x, y = batch(64, asked.seed * 10_000_000 + step)
        return cross_entropy(model(x)[-LENGTH:], y)

    model, budget = start(asked, SYMBOLS + 2, SYMBOLS + 1, batch(64, 0)[0])
    learn(model, budget, asked.lr, loss)
    report = budget.report()
    x, y = batch(1000, 9_999_999)
    with torch.no_grad():
        right = (model(x)[-LENGTH:].argmax(-1) == y).float().mean()
    return {**report, "accuracy": float(right)}


def read_digits(asked: Question) -> Scores:
    """The accuracy on test digits that are read pixel by pixel."""
    x, y = map(torch.as_tensor, digits("train", path=asked.mnist))
    mean, deviation = x.mean(), x.std()

    def logits(x: Tensor) -> Tensor:
        last: Tensor = model((x - mean) / deviation)[-1]
        return last

    def loss(_: int) -> Tensor:
        rows = torch.randint(len(y), (64,))
        return nn.functional.cross_entropy(logits(x[:, rows]), y[rows])

    model, budget = start(asked, None, 10, x[:, :64])
    learn(model, budget, asked.lr, loss)
    report = budget.report()
    new_x, new_y = map(torch.as_tensor, digits("test", path=asked.mnist))
    with torch.no_grad():
        right = [logits(new_x[:, rows]).argmax(-1) == new_y[rows] for rows in torch.arange(len(new_y)).split(500)]
    return {**report, "accuracy": float(torch.cat(right).float().mean()), "steps": len(x)}


def streams(tokens: Tensor, steps: int) -> list[tuple[Tensor, Tensor]]:
    """A text as `STREAMS` pieces side by side: inputs and targets (steps, streams), in the order of the text."""
    length = (len(tokens) - 1) // STREAMS
    x, y = (tokens[place : place + STREAMS * length].view(STREAMS, length).T for place in (0, 1))
    return list(zip(x.split(steps), y.split(steps), strict=True))


def shakespeare(asked: Question) -> Scores:
    """The loss on the last tenth of a text, in nats per character, with states carried on as in training."""
    if asked.text is None:
        raise DataError("Shakespeare needs a text.")
    ids, alphabet = encode(asked.text.read_text("utf-8"))
    tokens = torch.as_tensor(ids)
    begin = len(tokens) * 9 // 10
    pieces = streams(tokens[:begin], BPTT)
    states: list[Any] | None = None

    def loss(step: int) -> Tensor:
        nonlocal states
        place = step % len(pieces)
        x, y = pieces[place]
        logits, states = model.read(x, states if place else None)
        states = detach(states)
        return cross_entropy(logits, y)

    model, budget = start(asked, len(alphabet), len(alphabet), pieces[0][0])
    learn(model, budget, asked.lr, loss)
    return {**budget.report(), "loss": read_text(model, tokens[begin:]), "characters": len(alphabet)}


@torch.no_grad()
def read_text(model: Reader, tokens: Tensor) -> float:
    """The mean loss per character."""
    states, total, count = None, 0.0, 0
    for x, y in streams(tokens, READ):
        logits, states = model.read(x, states)
        total, count = total + float(cross_entropy(logits, y)) * y.numel(), count + y.numel()
    return total / count


TASKS: Mapping[str, Callable[[Question], Scores]] = {
    "parity": track_parity,
    "shakespeare": shakespeare,
    "digits": read_digits,
    "copying": copying,
    "S5-two-letters": track_two_letters,
    "S5": track_permutations,
}
