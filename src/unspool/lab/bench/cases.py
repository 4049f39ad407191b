"""What is measured: cells, sizes, and the weights and inputs that all contestants share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspool.errors import ArgumentError

Array = NDArray[Any]


class Point(NamedTuple):
    """Rows B, steps T, input width I, hidden width H."""

    B: int
    T: int
    I: int  # noqa: E741 - the legend's letter
    H: int

    @classmethod
    def parse(cls, text: str) -> Point:
        """`"32,100,64,128"` as a point."""
        parts = text.replace(" ", "").split(",")
        if len(parts) != 4 or not all(part.isdigit() and int(part) for part in parts):
            raise ArgumentError.of("sizes", text, "is not four sizes from 1 on", "Give B,T,I,H, as in 32,100,64,128")
        return cls(*map(int, parts))

    def __str__(self) -> str:
        return ",".join(map(str, self))


GRID = (
    Point(1, 100, 64, 128),
    Point(8, 200, 32, 64),
    Point(32, 100, 64, 128),
    Point(20, 35, 200, 200),
    Point(64, 784, 1, 128),
    Point(128, 50, 512, 512),
)

#: Cell → how many maps of x and h its gates are, as torch.nn stacks them.
GATES = {"elman": 1, "gru": 3, "lstm": 4}
TITLES = {"elman": "Elman", "gru": "GRU", "lstm": "LSTM"}


@dataclass(frozen=True)
class Case:
    """One cell at one point, with its float32 weights in torch.nn's layout and its input (T, B, I)."""

    cell: str
    point: Point

    def __str__(self) -> str:
        return f"{TITLES[self.cell]} {self.point}"

    @cached_property
    def weights(self) -> list[Array]:
        """weight_ih (G·H, I), weight_hh (G·H, H), bias_ih and bias_hh (G·H), within ±1/√H as torch.nn begins."""
        H, width = self.point.H, GATES[self.cell] * self.point.H
        shapes = ((width, self.point.I), (width, H), (width,), (width,))
        random = np.random.default_rng(0)
        return [random.uniform(-(H**-0.5), H**-0.5, shape).astype(np.float32) for shape in shapes]

    @cached_property
    def x(self) -> Array:
        B, T, I, _ = self.point  # noqa: E741
        return np.random.default_rng(1).standard_normal((T, B, I)).astype(np.float32)

    def operations(self, training: bool) -> float:
        """Floating-point operations of the products: backwards, one more with each matrix's operand and one with Uᵀ."""
        B, T, I, H = self.point  # noqa: E741
        maps = 2 * I + 3 * H if training else I + H
        return 2.0 * B * T * GATES[self.cell] * H * maps
