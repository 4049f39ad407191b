"""Complex numbers in equations: pairs of real values, multiplied and added as complex numbers are."""

from __future__ import annotations

from dataclasses import dataclass

from unspool.cells.functions import cos, sin
from unspool.cells.symbols import Number, Symbol

Real = Symbol | Number


@dataclass(frozen=True)
class Complex:
    """A complex number per unit as two values. A cell's state is two states, its real and its imaginary part.

    Where a real value meets a complex one, the complex one stands first: `z * v`, not `v * z`.

    Example:
        class Rotation(Cell):
            def step(self, x, h, s):
                turn = polar(0.9, self.vector("angle", 0.1))
                z = turn * Complex(h, s) + Complex(self.linear("h", x), 0)
                return z.real, z.imaginary
    """

    real: Real
    imaginary: Real

    def __add__(self, other: Complex) -> Complex:
        return Complex(self.real + other.real, self.imaginary + other.imaginary)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.real - other.real, self.imaginary - other.imaginary)

    def __mul__(self, other: Complex | Real) -> Complex:
        if not isinstance(other, Complex):
            return Complex(self.real * other, self.imaginary * other)
        return Complex(
            self.real * other.real - self.imaginary * other.imaginary,
            self.real * other.imaginary + self.imaginary * other.real,
        )

    @property
    def conjugate(self) -> Complex:
        """The number with the opposite imaginary part."""
        return Complex(self.real, -self.imaginary)


def polar(radius: Real, angle: Symbol) -> Complex:
    """The complex number of this radius and angle: radius · e^(i · angle)."""
    return Complex(cos(angle) * radius, sin(angle) * radius)
