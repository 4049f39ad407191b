"""Discretised oscillators and their kin: coRNN, UnICORNN and LEM, whose gradients stay bounded."""

from __future__ import annotations

from unspool.cells.cell import Cell, FirstValues, Shapes, Uniform, check_number
from unspool.cells.functions import sigmoid, tanh
from unspool.cells.symbols import Symbol

DT = "Give the length of a step, such as dt=0.1"


class CoRNN(Cell):
    """Coupled oscillators (Rusch and Mishra, 2021): positions y, velocities z, all of them coupled.

    `gamma` is the squared frequency, `epsilon` the damping; the defaults are the paper's for sequential MNIST.
    """

    def __init__(self, dt: float = 0.042, gamma: float = 2.7, epsilon: float = 4.7) -> None:
        self.dt = check_number("dt", dt, DT, positive=True)
        self.gamma = check_number("gamma", gamma, "Give the squared frequency, such as gamma=1")
        self.epsilon = check_number("epsilon", epsilon, "Give the damping, such as epsilon=1")

    def step(self, x: Symbol, y: Symbol, z: Symbol) -> tuple[Symbol, Symbol]:
        force = tanh(self.linear("z", x, y, z))
        z = z + self.dt * (force - self.gamma * y - self.epsilon * z)
        y = y + self.dt * z
        return y, z


class UnICORNN(Cell):
    """Undamped independent oscillators (Rusch and Mishra, 2021): every unit has its own time step σ(s)·dt."""

    def __init__(self, dt: float = 0.1, alpha: float = 1.0) -> None:
        self.dt = check_number("dt", dt, DT, positive=True)
        self.alpha = check_number("alpha", alpha, "Give the restoring force, such as alpha=1")

    def first_values(self, shapes: Shapes, uniform: Uniform) -> FirstValues:
        (units,) = shapes["w"]
        w, s = ([uniform(low, high) for _ in range(units)] for low, high in ((0, 1), (-0.1, 0.1)))
        return {"w": w, "s": s, "b_z": 0.0}

    def step(self, x: Symbol, y: Symbol, z: Symbol) -> tuple[Symbol, Symbol]:
        pace = self.dt * sigmoid(self.vector("s"))
        z = z - pace * (tanh(self.linear("z", x) + self.vector("w") * y) + self.alpha * y)
        y = y + pace * z
        return y, z


class LEM(Cell):
    """Long expressive memory (Rusch et al., 2022): two states, each with learned time steps of at most `dt`."""

    keeps = {"a": -1, "b": -1}

    def __init__(self, dt: float = 1.0) -> None:
        self.dt = check_number("dt", dt, DT, positive=True)

    def step(self, x: Symbol, y: Symbol, z: Symbol) -> tuple[Symbol, Symbol]:
        a = self.dt * sigmoid(self.linear("a", x, y))
        b = self.dt * sigmoid(self.linear("b", x, y))
        z = (1 - a) * z + a * tanh(self.linear("z", x, y))
        y = (1 - b) * y + b * tanh(self.linear("y", x, z))
        return y, z
