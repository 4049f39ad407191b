"""Does a network that learned the Lorenz system have the exponents of the system?

    python benchmarks/results/lorenz.py
    python benchmarks/results/lorenz.py --near 0        # states on the attractor only

A recurrent layer of three units learns to go from one state of the system to the next: h + D tanh(A h + a) + d. After
training it runs by itself, and X-ray's measure gives the Lyapunov exponents of its map, here per unit of time. Those of
the system are 0.906, 0 and −14.57. Trajectories on the attractor show little of how fast a state away from it comes
back. Therefore a part of the training states lies near the attractor instead of on it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool import Cell, tanh
from unspool.cells.symbols import Symbol
from unspool.insight import measure_lyapunov, record
from unspool.lab.data import lorenz
from unspool.lab.data.lorenz import advance
from unspool.nn import Recurrent

States = NDArray[np.float64]

KNOWN = (0.9056, 0.0, -14.5723)
#: Steps between two states of a trajectory that are learned from: neighbors say nearly the same.
APART = 10


class Increment(Cell):
    """A step that adds to the state what a layer of tanh units makes of it."""

    def __init__(self, inner: int = 32) -> None:
        self.inner = inner

    @property
    def sizes(self) -> Mapping[str, int]:
        """The number of tanh units."""
        return {"inner": self.inner}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        a = tanh(self.linear("a", x, h, width="inner"))
        return h + self.linear("d", a)


def draw_states(count: int, near: float, dt: float, seed: int) -> tuple[States, States]:
    """States, and those one step later; a fraction `near` of them is moved off the attractor by up to a few units."""
    trajectories = max(1, count // 100)
    path, _ = lorenz(-(-count // trajectories) * APART, trajectories, dt=dt, seed=seed)
    states = path[::APART].reshape(-1, 3)[:count].astype(np.float64)
    chance = np.random.default_rng(seed)
    moved = chance.permutation(count)[: round(near * count)]
    states[moved] += 2 * chance.standard_normal((len(moved), 3))
    return states, advance(states, dt)


class Learned:
    """A layer that moves scaled states, and the scale."""

    def __init__(self, states: States, inner: int, seed: int) -> None:
        torch.manual_seed(seed)
        self.center, self.size = torch.from_numpy(states.mean(0)), torch.from_numpy(states.std(0))
        self.layer = Recurrent(Increment(inner), 1, 3, dtype=torch.float64)

    def scale(self, states: States) -> Tensor:
        """The states as the layer has them."""
        return (torch.from_numpy(states) - self.center) / self.size

    def error(self, states: States, later: States) -> Tensor:
        """The mean squared error of a step, as a fraction of the mean square of a step."""
        x, y = self.scale(states), self.scale(later)
        moved: Tensor = self.layer(torch.zeros(1, len(x), 1, dtype=torch.float64), x)[1]
        return (moved - y).square().mean() / (y - x).square().mean()

    def train(self, states: States, later: States, updates: int) -> None:
        """Least squares over all states at once, by L-BFGS."""
        rule = torch.optim.LBFGS(
            self.layer.parameters(),
            max_iter=updates,
            max_eval=2 * updates,
            history_size=50,
            tolerance_grad=0,
            tolerance_change=0,
            line_search_fn="strong_wolfe",
        )

        def evaluate() -> Tensor:
            rule.zero_grad()
            loss = self.error(states, later)
            loss.backward()
            return loss

        rule.step(evaluate)

    def exponents(self, starts: States, steps: int, dt: float) -> tuple[States, States]:
        """The exponents per unit of time while the layer runs by itself, and the interval of the first."""
        zeros = torch.zeros(steps, len(starts), 1, dtype=torch.float64)
        recording = record(self.layer, lambda layer: layer(zeros, self.scale(starts))[0].sum())
        found = measure_lyapunov(recording)
        return found.exponents[0] / dt, found.interval[0] / dt


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--states", type=int, default=2000, help="to learn from")
    options.add_argument("--near", type=float, default=0.5, help="the fraction of them that is off the attractor")
    options.add_argument("--inner", type=int, default=32, help="tanh units")
    options.add_argument("--updates", type=int, default=500, help="of L-BFGS")
    options.add_argument("--dt", type=float, default=0.02, help="time between steps")
    options.add_argument("--time", type=float, default=100.0, help="that each of 8 trajectories runs by itself")
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    print(f"python {shlex.join(sys.argv)}: torch threads {torch.get_num_threads()}", flush=True)
    begun = time.perf_counter()
    data = draw_states(asked.states, asked.near, asked.dt, asked.seed)
    learned = Learned(data[0], asked.inner, asked.seed)
    learned.train(*data, asked.updates)
    with torch.no_grad():
        error = float(learned.error(*draw_states(2000, 0.0, asked.dt, asked.seed + 1))) ** 0.5
    print(
        f"error of a step on new states of the attractor: {error:.2%}, {time.perf_counter() - begun:.0f} s", flush=True
    )
    starts = draw_states(800, 0.0, asked.dt, asked.seed + 2)[0][:: 800 // 8]
    found, (low, high) = learned.exponents(starts, round(asked.time / asked.dt), asked.dt)
    print(f"exponents {', '.join(f'{one:.3f}' for one in found)}; of the system {', '.join(map(str, KNOWN))}")
    print(f"the first within {low:.3f} to {high:.3f} (95 %), {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
