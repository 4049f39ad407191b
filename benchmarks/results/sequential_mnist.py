"""How well does an LSTM read MNIST pixel by pixel, in order (sMNIST) and in a fixed random order (psMNIST)?

    python benchmarks/results/sequential_mnist.py FOLDER
    python benchmarks/results/sequential_mnist.py FOLDER --permuted
    python benchmarks/results/sequential_mnist.py FOLDER --permuted --library torch

The folder has the four idx files, packed (.gz) or not. A digit is 784 steps of one number, with mean 0 and deviation 1.
The model is one LSTM layer of 128 units with a linear head on its last state; the literature reports 88 to 92 % for
psMNIST. The learning rate falls to 0 along a cosine. The weights are those of the best epoch on a tenth of the training
data, and the test data is read once, at the end. Before training, both
libraries are timed on the same updates.
"""

from __future__ import annotations

import argparse
import copy
import shlex
import sys
import time
from pathlib import Path

import torch
from libraries import LIBRARIES, LastState, compare_speed, update
from mnist_rows import read_idx
from torch import Tensor, nn

VALIDATION = 6000
#: Of all pixels of the training data, between 0 and 1.
MEAN, DEVIATION = 0.1307, 0.3081


def read(folder: Path, part: str, order: Tensor) -> tuple[Tensor, Tensor]:
    """Pixels (784, digits, 1) of mean 0 and deviation 1, and the digits."""
    images = torch.tensor(read_idx(folder, f"{part}-images-idx3-ubyte")).float().flatten(1) / 255
    digits = torch.tensor(read_idx(folder, f"{part}-labels-idx1-ubyte")).long()
    return ((images[:, order].T - MEAN) / DEVIATION).contiguous().unsqueeze(-1), digits


@torch.no_grad()
def score(model: nn.Module, x: Tensor, y: Tensor) -> float:
    right = [(model(x[:, rows]).argmax(-1) == y[rows]).float() for rows in torch.arange(len(y)).split(1000)]
    return float(torch.cat(right).mean())


def start(library: str, hidden: int, seed: int, longest: int) -> LastState:
    """A model whose forget gates start open, for a few steps or, with `longest`, for 1 to that many (chrono)."""
    torch.manual_seed(seed)
    model = LastState(library, "lstm", 1, hidden, 10)
    forget = torch.empty(hidden).uniform_(1, longest - 1).log() if longest else torch.ones(hidden)
    with torch.no_grad():
        model.layer.bias_ih_l0[hidden : 2 * hidden] = forget
        model.layer.bias_hh_l0[hidden : 2 * hidden] = 0.0  # torch.nn adds two biases
        if longest:
            model.layer.bias_ih_l0[:hidden], model.layer.bias_hh_l0[:hidden] = -forget, 0.0
    return model


def train(model: nn.Module, x: Tensor, y: Tensor, asked: argparse.Namespace) -> nn.Module:
    """The best of all epochs on the last tenth of the data."""
    (x, new_x), (y, new_y) = x.split([len(y) - VALIDATION, VALIDATION], 1), y.split([len(y) - VALIDATION, VALIDATION])
    rule = torch.optim.Adam(model.parameters(), asked.lr)
    updates = asked.updates or -(-len(y) // asked.batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(rule, asked.epochs * updates)
    best, kept = 0.0, model
    for epoch in range(asked.epochs):
        begun = time.perf_counter()
        for rows in torch.randperm(len(y)).split(asked.batch_size)[:updates]:
            update(model, rule, nn.functional.cross_entropy(model(x[:, rows]), y[rows]))
            schedule.step()
        found = score(model, new_x, new_y)
        print(f"epoch {epoch + 1}: validation {found:.2%}, {time.perf_counter() - begun:.0f} s", flush=True)
        if found > best:
            best, kept = found, copy.deepcopy(model)
    return kept


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--permuted", action="store_true")
    options.add_argument("--library", choices=LIBRARIES, default="unspool")
    options.add_argument("--hidden", type=int, default=128)
    options.add_argument("--epochs", type=int, default=20)
    options.add_argument("--updates", type=int, help="of each epoch; by default all")
    options.add_argument("--batch-size", type=int, default=32)
    options.add_argument("--lr", type=float, default=1e-3)
    options.add_argument(
        "--chrono", type=int, default=0, metavar="STEPS", help="gates start to keep for 1 to so many steps"
    )
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    pixels = 28 * 28
    order = (
        torch.randperm(pixels, generator=torch.Generator().manual_seed(92)) if asked.permuted else torch.arange(pixels)
    )
    x, y = read(asked.folder, "train", order)
    print(f"python {shlex.join(sys.argv)}: seed {asked.seed}, torch threads {torch.get_num_threads()}", flush=True)

    def loss(model: nn.Module) -> Tensor:
        return nn.functional.cross_entropy(model(x[:, : asked.batch_size]), y[: asked.batch_size])

    print(compare_speed(lambda library: start(library, asked.hidden, asked.seed, asked.chrono), loss), flush=True)
    begun = time.perf_counter()
    model = train(start(asked.library, asked.hidden, asked.seed, asked.chrono), x, y, asked)
    seconds = time.perf_counter() - begun
    name = "psMNIST" if asked.permuted else "sMNIST"
    print(f"{name}: test accuracy {score(model, *read(asked.folder, 't10k', order)):.2%} after {seconds:.0f} s")


if __name__ == "__main__":
    main()
