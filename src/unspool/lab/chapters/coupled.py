"""The coupled system: two layers of Euler cells as one dynamical system, its fixed points and its stability."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool import lab
from unspool.cells import Leaky
from unspool.insight import find_points
from unspool.nn import Recurrent

Array = NDArray[np.float64]
ALPHA, A, C = (1.2, 0.8), (0.5, 1.1), 0.7
#: A second system, in which the lower layer is unstable as well: it has more fixed points.
OTHER_ALPHA, OTHER_A, OTHER_C = (0.8, 0.8), (1.1, 1.3), 0.1
LAMBDA = (0.3, -0.7)
DT, TIME, START = 0.1, 4.0, (1.0, -0.5)
TOLERANCE = 1e-10


def layer(dt: float, alpha: float, a: float, read: float) -> Recurrent:
    """One leaky unit without bias, with these weights of its state and its input."""
    made = Recurrent(Leaky(dt, alpha), 1, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        made.get_parameter("U_h").fill_(a)
        made.get_parameter("W_h").fill_(read)
    return made


def system(alpha: tuple[float, float], a: tuple[float, float], c: float, dt: float) -> Callable[[Tensor], Tensor]:
    """One step of the joint state (n, 2) on zero input: the upper layer reads the lower one's new state."""
    lower, upper = layer(dt, alpha[0], a[0], 0.0), layer(dt, alpha[1], a[1], c)

    def step(states: Tensor) -> Tensor:
        (first,) = lower.take_step(torch.zeros_like(states[:, :1]), (states[:, :1],))
        (second,) = upper.take_step(first, (states[:, 1:],))
        return torch.cat([first, second], -1)

    return step


def derivative(alpha: Array | float, a: Array | float, read: Array | float, h: Array) -> Array:
    """dh/dt of a layer that reads a number."""
    slope: Array = -alpha * h + np.tanh(a * h + read)
    return slope


def roots(slope: Callable[[Array], Array]) -> list[float]:
    """All zeros in (−3, 3), beyond which the decay is stronger than tanh: changes of sign, then bisection."""
    grid = np.linspace(-3, 3, 30_000)  # an even number, so that 0 is not on it
    values = np.sign(slope(grid))
    places = np.flatnonzero(values[:-1] != values[1:])
    low, high = grid[places], grid[places + 1]
    for _ in range(60):
        middle = (low + high) / 2
        left = np.sign(slope(middle)) == np.sign(slope(low))
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return [float(root) for root in (low + high) / 2]


def equilibria(alpha: tuple[float, float], a: tuple[float, float], c: float) -> list[tuple[float, float]]:
    """Every point at which both derivatives vanish: the lower layer's, and the upper layer's for each of them."""
    return [
        (lower, upper)
        for lower in roots(partial(derivative, alpha[0], a[0], 0.0))
        for upper in roots(partial(derivative, alpha[1], a[1], c * lower))
    ]


def search(alpha: tuple[float, float], a: tuple[float, float], c: float) -> lab.Found:
    """Fixed points of the joint map from a grid of starts, with the eigenvalues of the differential equation there."""
    side = torch.linspace(-2.0, 2.0, 9, dtype=torch.float64)
    (found,) = find_points(system(alpha, a, c, DT), starts=torch.cartesian_prod(side, side), dt=DT).sets
    fixed = ~found.slow
    order = np.lexsort(found.points[fixed].round(9).T[::-1])
    return {
        "points": found.points[fixed][order],
        "eigenvalues": np.sort((found.eigenvalues[fixed].real[order] - 1) / DT)[:, ::-1],
        "expected": equilibria(alpha, a, c),
    }


def exact(steps: int) -> Array:
    """The solution at the end, by Runge and Kutta's method of fourth order."""

    def slope(h: Array) -> Array:
        return derivative(np.array(ALPHA), np.array(A), np.array([0.0, C * h[0]]), h)

    h, dt = np.array(START), TIME / steps
    for _ in range(steps):
        k1 = slope(h)
        k2 = slope(h + dt / 2 * k1)
        k3 = slope(h + dt / 2 * k2)
        h = h + dt / 6 * (k1 + 2 * k2 + 2 * k3 + slope(h + dt * k3))
    return h


def euler(dt: float) -> Array:
    """The state of the network at the end."""
    step = system(ALPHA, A, C, dt)
    h = torch.tensor([START], dtype=torch.float64)
    with torch.no_grad():
        for _ in range(round(TIME / dt)):
            h = step(h)
    return h[0].numpy()


def measure(study: lab.Study) -> lab.Found:
    lengths = [0.2 / 2**halving for halving in range(study.choose(6, 8))]
    solution = exact(4000)
    errors = [float(np.linalg.norm(euler(dt) - solution)) for dt in lengths]
    return {
        "document": search(ALPHA, A, C),
        "other": search(OTHER_ALPHA, OTHER_A, OTHER_C),
        "dt": lengths,
        "errors": errors,
        "solver_error": float(np.linalg.norm(exact(2000) - solution)),
    }


def distance(found: lab.Found) -> float:
    """How far the points that were found are from all that exist; infinite if their numbers differ."""
    points, expected = np.array(found["points"]), np.array(found["expected"])
    if len(points) != len(expected):
        return math.inf
    apart = np.abs(points[:, None] - expected).max(-1)
    return float(max(apart.min(0).max(), apart.min(1).max()))


def origin(found: lab.Found) -> Array:
    """The eigenvalues at the point nearest to the origin."""
    nearest = int(np.abs(np.array(found["points"])).sum(-1).argmin())
    return np.array(found["eigenvalues"][nearest])


def orders(found: lab.Found) -> Array:
    """log₂ of the ratio of errors at Δt and Δt/2."""
    errors = np.array(found["errors"])
    return np.asarray(np.log2(errors[:-1] / errors[1:]))


def judge(found: lab.Found) -> lab.Verdict:
    document = found["document"]
    return lab.all_of(
        lab.at_most(
            "eigenvalues at the origin, largest difference", np.abs(origin(document) - LAMBDA).max(), TOLERANCE
        ),
        lab.at_most("fixed points, largest difference from all that exist", distance(document), TOLERANCE),
        lab.at_most("fixed points of the other system, largest difference", distance(found["other"]), TOLERANCE),
        lab.at_most("order of the Euler error, difference from 1", abs(float(orders(found)[-1]) - 1), 0.05),
        lab.at_most("Euler error at the smallest Δt", found["errors"][-1], 0.01),
    )


def show(found: lab.Found) -> lab.Shown:
    rows = []
    for name in ("document", "other"):
        part = found[name]
        for point, (first, second) in zip(part["points"], part["eigenvalues"], strict=True):
            rows.append((name, *point, first, second, "stable" if first < 0 else "unstable"))
    order: list[float | str] = ["", *map(float, orders(found))]
    errors: list[tuple[float | str, ...]] = list(zip(found["dt"], found["errors"], order, strict=True))
    series = lab.Series("network against solution", found["dt"], found["errors"])
    return lab.Shown(
        tables=(
            lab.Table(("system", "h of layer 1", "h of layer 2", "λ, larger", "λ, smaller", "stability"), rows),
            lab.Table(("Δt", "error of the Euler cell", "order"), errors),
        ),
        figures=(
            lab.Lines(
                "Error of the Euler network by the length of a step",
                "Δt",
                "distance from the solution",
                [series],
                log_x=True,
                log_y=True,
                marks=(lab.Mark("error of the reference solution", max(found["solver_error"], 1e-16)),),
            ),
        ),
    )


CHAPTER = lab.Chapter(
    claim="S0-8",
    equation=(
        "h_t^{(1)} = h_{t−1}^{(1)} + Δt(−α_1 h_{t−1}^{(1)} + tanh(a_1 h_{t−1}^{(1)}))\n"
        "h_t^{(2)} = h_{t−1}^{(2)} + Δt(−α_2 h_{t−1}^{(2)} + tanh(a_2 h_{t−1}^{(2)} + c_2 h_t^{(1)}))\n"
        "λ = (a_1 − α_1, a_2 − α_2) = (−0.7, 0.3)"
    ),
    method=(
        "Two layers of leaky cells with α = (1.2, 0.8) and a = (0.5, 1.1) run on zero input. Fixed points of both "
        "layers together are searched from a grid of starts, and compared with all zeros of the derivatives, found by "
        "bisection; so are those of a second system, in which both layers are unstable at the origin. The state "
        "after a fixed time is compared with a solution by Runge and Kutta as Δt is halved. The claim holds if the "
        "eigenvalues at the origin and all fixed points agree to 1e-10, and the error falls in proportion to Δt."
    ),
    measure=measure,
    judge=judge,
    show=show,
)
