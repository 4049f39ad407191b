"""How many updates does the adding problem take at T = 400, and which cells do not solve it?

    python benchmarks/results/adding.py
    python benchmarks/results/adding.py --cell lstm --library torch

Each sequence has T random numbers and two marks; the target is the sum of the two marked numbers. Always answering 1
has a mean squared error of 1/6 = 0.167; below 0.01 the problem counts as solved. Gates that keep start with biases for
memories of 1 to T steps (chrono initialization). Before training, both libraries are timed on the same updates.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time

import torch
from libraries import CLASSES, LIBRARIES, LastState, compare_speed, update
from torch import Tensor, nn

from unspool.lab.data import adding

SOLVED = 0.01


def start(library: str, asked: argparse.Namespace) -> LastState:
    """A model of torch.nn's layout; the biases of gates are set in its place of that layout."""
    torch.manual_seed(asked.seed)
    model = LastState(library, asked.cell, 2, asked.hidden, 1)
    size = asked.hidden
    bias = torch.empty(size).uniform_(1, asked.T - 1).log()
    gates = {"elman": (), "gru": ((1, bias),), "lstm": ((0, -bias), (1, bias))}[asked.cell]  # gru: r z n; lstm: i f g o
    with torch.no_grad():
        for place, value in gates:
            model.layer.bias_ih_l0[place * size : (place + 1) * size] = value
            model.layer.bias_hh_l0[place * size : (place + 1) * size] = 0.0
    return model


def error(model: nn.Module, T: int, count: int, seed: int) -> Tensor:
    x, y = map(torch.as_tensor, adding(T, count, seed))
    found: Tensor = (model(x).squeeze(-1) - y).square().mean()
    return found


def train(model: nn.Module, asked: argparse.Namespace) -> None:
    """Updates until the problem is solved, with the error on new sequences after every hundred."""
    rule = torch.optim.Adam(model.parameters(), asked.lr)
    begun, found = time.perf_counter(), 1.0
    for step in range(1, asked.updates + 1):
        update(model, rule, error(model, asked.T, asked.batch_size, asked.seed * 1_000_000 + step))
        if step % 100 and step < asked.updates:
            continue
        with torch.no_grad():
            found = float(error(model, asked.T, 2000, 999_999))
        print(f"update {step}: {found:.4f}, {time.perf_counter() - begun:.0f} s", flush=True)
        if found < SOLVED:
            break
    said = "solved" if found < SOLVED else "not solved"
    seconds = time.perf_counter() - begun
    print(
        f"| {asked.cell} | T = {asked.T} | {said} after {step:,} updates | {found:.4f} | {seconds:.0f} s |", flush=True
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cell", choices=CLASSES, default="lstm")
    options.add_argument("--library", choices=LIBRARIES, default="unspool")
    options.add_argument("--T", type=int, default=400)
    options.add_argument("--hidden", type=int, default=64)
    options.add_argument("--updates", type=int, default=4000, help="at most")
    options.add_argument("--batch-size", type=int, default=32)
    options.add_argument("--lr", type=float, default=5e-3)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    print(f"python {shlex.join(sys.argv)}: seed {asked.seed}, torch threads {torch.get_num_threads()}", flush=True)
    print(
        compare_speed(lambda library: start(library, asked), lambda model: error(model, asked.T, asked.batch_size, 0))
    )
    train(start(asked.library, asked), asked)


if __name__ == "__main__":
    main()
