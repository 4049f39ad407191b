"""Which recurrences can track the state of a group: parity, and the word problem of S5, beyond the lengths of training?

    python benchmarks/results/state_tracking.py parity
    python benchmarks/results/state_tracking.py S5 --hidden 256 --batch-size 256 --updates 20000

The target at each step is the product of all symbols so far. Training begins with 2 steps and adds one as soon as the
network is right at the last step of 95 % of the sequences, up to 20; a network that does not learn stays at its length,
which the table shows. At 20 steps it ends with 99 %. The test has 20, 40 and 100 steps.
Nonlinear networks can track both. A linear recurrence whose eigenvalues are positive, h_t = a_t ⊙ h_{t−1} + (1 − a_t) ⊙
v_t with a_t between 0 and 1, cannot track parity at all lengths, however many such layers there are: its state does not
alternate. It has two layers and a nonlinear head here, the others one. For cells of torch.nn both libraries are timed.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Iterable

import torch
from libraries import CLASSES, LIBRARIES, compare_speed, update
from torch import Tensor, nn

import unspool
from unspool.cells import Cell, Symbol
from unspool.lab.data import parity, word_problem

TRAINED, TESTED = 20, (20, 40, 100)
STATES = {"parity": 2, "S5": 120}
#: Shares of right answers, averaged over about 20 batches, with which sequences get longer and training ends.
LEARNED, ENOUGH = 0.95, 0.99


class PositiveLinear(Cell):
    """Linear in the state, with a factor between 0 and 1 for each unit that only the input decides."""

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        a = unspool.sigmoid(self.linear("a", x))
        return a * h + (1 - a) * self.linear("v", x)


class Tracker(nn.Module):
    """Tokens (time, batch) → logits of the state at each step."""

    def __init__(self, library: str, cell: str, tokens: int, states: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, hidden)
        self.layer: nn.Module
        if cell == "linear":
            self.layer = unspool.nn.Stack(PositiveLinear, hidden, hidden, 2, residual=True)
        else:
            self.layer = getattr(LIBRARIES[library], CLASSES[cell])(hidden, hidden)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, states))

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layer(self.embedding(tokens))[0])
        return logits


def batch(task: str, T: int, count: int, seed: int, letters: bool) -> tuple[Tensor, Tensor]:
    found = parity(T, count, seed) if task == "parity" else word_problem(T, count, 5, letters, seed)
    return torch.as_tensor(found[0]), torch.as_tensor(found[1])


def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def train(model: nn.Module, asked: argparse.Namespace, steps: Iterable[int]) -> int:
    """Train on sequences that grow with what has been learned, one update per step; the length of the last ones."""
    rule = torch.optim.Adam(model.parameters(), asked.lr)
    T, recent = 2, 0.0
    for step in steps:
        x, y = batch(asked.task, T, asked.batch_size, asked.seed * 10_000_000 + step, asked.generators)
        logits = model(x)
        recent += 0.05 * (float((logits[-1].argmax(-1) == y[-1]).float().mean()) - recent)
        update(model, rule, nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten()))
        if recent > LEARNED and T < TRAINED:
            T, recent = T + 1, 0.0
            print(f"  {step + 1} updates: {T} steps", file=sys.stderr, flush=True)
        elif recent > ENOUGH:
            break
    return T


@torch.no_grad()
def score(model: nn.Module, T: int, asked: argparse.Namespace) -> float:
    """The accuracy at the last step of new sequences."""
    x, y = batch(asked.task, T, 1000, 9_999_999, asked.generators)
    return float((model(x)[-1].argmax(-1) == y[-1]).float().mean())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("task", choices=STATES)
    options.add_argument("--cells", nargs="+", choices=[*CLASSES, "linear"], default=["elman", "gru", "lstm", "linear"])
    options.add_argument("--library", choices=LIBRARIES, default="unspool")
    options.add_argument("--generators", action="store_true", help="two letters that generate S5, in place of all 120")
    options.add_argument("--hidden", type=int, default=128)
    options.add_argument("--batch-size", type=int, default=64)
    options.add_argument("--updates", type=int, default=5000)
    options.add_argument("--lr", type=float, default=1e-3)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    print(f"python {shlex.join(sys.argv)}: seed {asked.seed}, torch threads {torch.get_num_threads()}", flush=True)
    states = STATES[asked.task]
    tokens = 2 if asked.generators else states
    given = batch(asked.task, TRAINED, asked.batch_size, 0, asked.generators)
    for cell in asked.cells:

        def make(library: str, cell: str = cell) -> Tracker:
            torch.manual_seed(asked.seed)
            return Tracker(library, cell, tokens, states, asked.hidden)

        if cell in CLASSES:
            print(f"{cell}: {compare_speed(make, lambda model: loss(model, *given))}", flush=True)
        model, begun = make(asked.library), time.perf_counter()
        T = train(model, asked, range(asked.updates))
        seconds = time.perf_counter() - begun
        scores = " | ".join(f"{score(model, T, asked):.1%}" for T in TESTED)
        print(f"| {cell} | {scores} | {T} steps | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
