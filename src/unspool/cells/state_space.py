"""Linear recurrences of each unit: state-space models with gates or complex poles."""

from __future__ import annotations

import math
from collections.abc import Mapping

from unspool.cells.cell import Cell, FirstValues, Shapes, Uniform, check_number, check_size
from unspool.cells.functions import cos, exp, sigmoid, sin, softplus, sqrt
from unspool.cells.matrices import sum_units
from unspool.cells.symbols import Symbol
from unspool.errors import ArgumentError

#: A number for every pole of every unit.
POLES = "hidden*poles"
#: Uniform numbers within ± this have the variance ½, as the parts of complex normal ones.
SPREAD = math.sqrt(1.5)


class RGLRU(Cell):
    """Real-gated linear recurrent unit (De et al., 2024): h = a ⊙ h + √(1 − a²) ⊙ i ⊙ u, with a = e^(−c softplus(Λ) r).

    u is the linear layer that stands before it in the block of the paper; r and i read u. Λ starts such that a unit
    with an open gate r keeps 0.9 to 0.999 of its state.
    """

    def __init__(self, c: float = 8.0) -> None:
        self.c = check_number("c", c, "Give the sharpness of the gate, such as c=8", positive=True)

    def first_values(self, shapes: Shapes, uniform: Uniform) -> FirstValues:
        kept = [uniform(0.9, 0.999) for _ in range(*shapes["lambda"])]
        return {"lambda": [math.log(math.expm1(-math.log(one) / self.c)) for one in kept]}

    def step(self, x: Symbol, h: Symbol) -> Symbol:
        u = self.linear("u", x)
        r = sigmoid(self.linear("r", u))
        i = sigmoid(self.linear("i", u))
        a = exp(-self.c * softplus(self.vector("lambda")) * r)
        # where a rounds to 1 the root's slope would be infinite
        return a * h + sqrt(1 - a * a + 1e-12) * (i * u)


class LRU(Cell):
    """Linear recurrent unit (Orvieto et al., 2023): complex poles λ = exp(−e^ν + i e^θ) in a ring, and a linear head.

    The poles start evenly spread over the ring of radii `r_min` to `r_max`. The state is re + i·im; the output y is
    Re(C h) + D x, with C = U1 − i·U2.
    """

    def __init__(self, r_min: float = 0.9, r_max: float = 0.999) -> None:
        self.r_min = check_number("r_min", r_min, "Give the inner radius of the ring, such as r_min=0.9")
        self.r_max = check_number("r_max", r_max, "Give the outer radius of the ring, such as r_max=0.999")
        if not 0 <= self.r_min < self.r_max < 1:
            raise ArgumentError.of(
                "r_max", r_max, f"is not above `r_min` (={r_min}) and below 1", "Give 0 ≤ r_min < r_max < 1"
            )

    def first_values(self, shapes: Shapes, uniform: Uniform) -> FirstValues:
        squares = [uniform(self.r_min**2, self.r_max**2) for _ in range(*shapes["nu"])]
        angles = [uniform(1e-6, math.tau) for _ in squares]
        return {
            "nu": [math.log(-0.5 * math.log(square)) for square in squares],
            "theta": [math.log(angle) for angle in angles],
            "gamma": [0.5 * math.log1p(-square) for square in squares],
        }

    def step(self, x: Symbol, y: Symbol, re: Symbol, im: Symbol) -> tuple[Symbol, Symbol, Symbol]:  # noqa: ARG002
        radius, angle = exp(-exp(self.vector("nu"))), exp(self.vector("theta"))
        a, b, g = radius * cos(angle), radius * sin(angle), exp(self.vector("gamma"))
        real = a * re - b * im + g * self.linear("re", x, bias=False)
        im = a * im + b * re + g * self.linear("im", x, bias=False)
        return self.linear("y", x, real, im, bias=False), real, im


class S4D(Cell):
    """Diagonal state-space model (Gu et al., 2022), S4D-Lin: every unit is a linear filter with `poles` complex poles.

    u = W x + b mixes the inputs. Each unit's step length starts between 0.001 and 0.1, and its pole n at −½ + iπn.
    """

    def __init__(self, poles: int = 16) -> None:
        self.poles = check_size("poles", poles)

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"poles": self.poles}

    @property
    def state_widths(self) -> Mapping[str, str]:
        return {"re": POLES, "im": POLES}

    def first_values(self, shapes: Shapes, uniform: Uniform) -> FirstValues:
        (units,), (size,) = shapes["skip"], shapes["frequency"]
        steps = [uniform(math.log(0.001), math.log(0.1)) for _ in range(units)]
        frequencies = [math.pi * (at % self.poles) for at in range(size)]
        c_re, c_im = ([uniform(-SPREAD, SPREAD) for _ in range(size)] for _ in range(2))
        return {"log_dt": steps, "frequency": frequencies, "c_re": c_re, "c_im": c_im}

    def step(self, x: Symbol, y: Symbol, re: Symbol, im: Symbol) -> tuple[Symbol, Symbol, Symbol]:  # noqa: ARG002
        u, dt = self.linear("u", x), exp(self.vector("log_dt"))
        a, w = -exp(self.vector("decay", math.log(0.5), POLES)), self.vector("frequency", 0.0, POLES)
        p, q = exp(dt * a) * cos(dt * w), exp(dt * a) * sin(dt * w)  # the pole e^(dt A) of one step, A = a + i w
        b = ((p - 1) * a + q * w) / (a * a + w * w)  # (e^(dt A) − 1) / A = b + i d
        d = (q * a - (p - 1) * w) / (a * a + w * w)
        real = p * re - q * im + b * u
        im = p * im + q * re + d * u
        shown = self.vector("c_re", 0.0, POLES) * real - self.vector("c_im", 0.0, POLES) * im
        return 2 * sum_units(shown, keep="hidden") + self.vector("skip", 1.0) * u, real, im
