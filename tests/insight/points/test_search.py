"""The search for points of maps that are written down: continua, cycles, runaways, budgets; and scipy's fsolve."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq, fsolve
from torch import Tensor

from unspool.insight.measures.fixed_points import PointSet, find_points
from unspool.insight.points.collection import Collection
from unspool.insight.points.continua import Limits
from unspool.insight.points.counted_map import CountedMap
from unspool.insight.points.found import Points
from unspool.insight.points.search import FIXED, SLOW, Starts, search
from unspool.insight.points.solver import Ends
from unspool.insight.recording import record
from unspool.lab.data.flip_flop import flip_flop

Array = NDArray[np.float64]


def look(step: Callable[[Tensor], Tensor], width: int, most: int = 1024, budget: int = 1_000_000) -> Points:
    """Search from a box around the unit cube."""
    generator = torch.Generator().manual_seed(0)

    def draw(count: int) -> Tensor:
        return 2.5 * torch.rand(count, width, generator=generator, dtype=torch.float64) - 1.25

    return search(step, Starts(torch.zeros(1, width, dtype=torch.float64), draw, most, 1.0), budget)


def turned(values: list[float], seed: int = 1) -> Tensor:
    """A symmetric matrix with these eigenvalues."""
    generator = torch.Generator().manual_seed(seed)
    turn, _ = torch.linalg.qr(torch.randn(len(values), len(values), dtype=torch.float64, generator=generator))
    made: Tensor = turn @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ turn.T
    return made


def apply(matrix: Tensor, s: Tensor) -> Tensor:
    """A linear map of n states."""
    return s @ matrix.T


def from_starts(step: Callable[[Tensor], Tensor], starts: Tensor) -> PointSet:
    (found,) = find_points(step, starts=starts).sets
    return found


def test_where_the_jacobian_is_not_finite_stability_is_unknown() -> None:
    found = from_starts(lambda s: s.abs().sqrt(), torch.zeros(4, 2, dtype=torch.float64))
    assert found.kind == ("unknown",)
    assert found.points.tolist() == [[0, 0]]
    assert np.isnan(found.eigenvalues).all()
    assert not found.stable.any()


@pytest.mark.parametrize(
    ("beside", "kind"), [(1.01, "line of unstable points"), (1.5, "line of unstable points"), (0.99, "line attractor")]
)
def test_a_line_attracts_only_if_states_beside_it_come_nearer(beside: float, kind: str) -> None:
    found = from_starts(
        partial(apply, torch.diag(torch.tensor([1.0, beside], dtype=torch.float64))),
        2 * torch.rand(64, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 1,
    )
    (line,) = found.continua
    assert (line.kind, line.attracting) == (kind, beside < 1)


def test_a_line_attractor_is_one_and_not_hundreds_of_points() -> None:
    matrix = turned([1.0, 0.8, 0.6, 0.4, -0.3])
    found = look(lambda s: s @ matrix.T, 5)
    (line,) = found.continua
    assert (line.kind, line.dimension) == ("line attractor", 1)
    assert found.kind == ("continuum",)
    assert line.points == found.reached[0] == found.starts > 100
    assert found.recall.fraction == 1.0
    _, vectors = np.linalg.eigh(matrix.numpy())
    assert np.abs(line.path @ vectors[:, :-1]).max() < 1e-9  # the eigenvector of 1 is the last
    along = line.path @ vectors[:, -1]
    assert np.ptp(along) > 2
    assert found.time_constants[0, 0] > 1e9
    np.testing.assert_allclose(found.time_constants[0, 1], -1 / math.log(0.8), rtol=1e-9)


def test_other_continua_by_their_kind() -> None:
    plane = look(lambda s: s @ turned([1.0, 1.0, 0.5]).T, 3, most=64)
    assert [one.kind for one in plane.continua] == ["plane attractor"]
    assert plane.kind == ("continuum",)

    def ring(s: Tensor) -> Tensor:
        radius = s[:, :2].norm(dim=-1, keepdim=True)
        return torch.cat([s[:, :2] * (1 + 0.3 * (1 - radius)), 0.5 * s[:, 2:]], -1)

    around = look(ring, 3, most=64)
    assert [one.kind for one in around.continua] == ["ring attractor"]
    np.testing.assert_allclose(np.linalg.norm(around.continua[0].path[:, :2], axis=1), 1, atol=1e-6)
    assert sorted(around.kind) == ["continuum", "saddle"]  # the ring, and its center
    drift = look(lambda s: s @ turned([0.999, 0.6, 0.4]).T, 3, most=64)
    assert [one.kind for one in drift.continua] == ["slow manifold"]
    away = look(lambda s: s @ turned([1.0, 1.4, 0.4]).T, 3, most=64)
    assert [one.kind for one in away.continua] == ["line of unstable points"]


def test_a_point_with_a_slow_mode_is_no_continuum() -> None:
    """tanh(s) is flat at 0 to third order; its point is one point. So are those of small steps of an equation."""
    flat = look(torch.tanh, 1)
    assert (len(flat.points), flat.continua) == (1, ())
    small = look(lambda s: s + 0.01 * (torch.tanh(2 * s) - s), 2)
    assert (len(small.points), small.continua) == (9, ())


def test_a_nilpotent_map_forgets_everything() -> None:
    generator = torch.Generator().manual_seed(0)
    upper = torch.triu(torch.randn(8, 8, dtype=torch.float64, generator=generator), 1)
    turn, _ = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64, generator=generator))
    for matrix in (upper, turn @ upper @ turn.T):
        found = look(partial(apply, matrix), 8)
        np.testing.assert_allclose(found.points, np.zeros((1, 8)), atol=1e-12)
        assert not found.eigenvalues.any()  # a solver alone gives up to 0.03
        assert not found.time_constants.any()
        assert found.kind == ("stable",)


def test_a_limit_cycle_is_said() -> None:
    """Turned by 0.7 rad per step on a circle: nothing settles but the unstable center, and 9 steps make a round."""
    turn = torch.tensor([[math.cos(0.7), -math.sin(0.7)], [math.sin(0.7), math.cos(0.7)]], dtype=torch.float64)

    def step(s: Tensor) -> Tensor:
        return (s * (1.3 - 0.3 * s.square().sum(-1, keepdim=True)).clamp(min=0.1)) @ turn.T

    found = look(step, 2)
    assert found.kind == ("unstable",)
    assert (found.fates.settled, found.fates.cycling) == (1, 32)  # the center, which is the first start
    assert found.fates.period == 9
    np.testing.assert_allclose(found.frequencies[0], 0.7 / (2 * math.pi), rtol=1e-9)
    clock = look(lambda s: torch.cat([step(s[:, :2]), s[:, 2:] + 0.1 * torch.ones_like(s[:, 2:])], -1), 3)
    assert clock.kind == ()  # no fixed point at all
    assert math.isnan(clock.recall.fraction)
    alternating = look(lambda s: torch.tanh(-3 * s + 0.1), 1)
    assert (alternating.fates.cycling, alternating.fates.period) == (33, 2)


def test_a_relu_that_runs_away_ends_the_search() -> None:
    matrix = torch.diag(torch.tensor([1.5, 1.2, 1.1], dtype=torch.float64))
    found = look(lambda s: torch.relu(s @ matrix + 1), 3)
    assert found.kind == ()
    assert found.fates.escaped == 33
    assert (found.starts, found.stopped) == (257, "starts")  # the origin, and 256 in vain
    assert found.evaluations < 100_000


@pytest.mark.parametrize("budget", [1, 50, 3_000])
def test_a_budget_is_kept_and_said(budget: int) -> None:
    matrix = 3 * torch.randn(20, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) / 20**0.5
    found = look(lambda s: torch.tanh(s @ matrix.T), 20, budget=budget)
    assert found.stopped == "budget"
    described = len(found.points) * 20  # the spectra of what was found
    assert found.evaluations <= 1.25 * budget + 21 * 33 + described


def test_nothing_finite() -> None:
    found = look(lambda s: s / 0, 2)
    assert found.kind == ()
    assert found.fates.escaped == 33


def test_slow_point() -> None:
    """s + s² + ε has no fixed point; where it is slowest, at 0, its residual is ε²/2 and its slope 1."""
    starts = torch.linspace(-0.5, 0.5, 9, dtype=torch.float64).unsqueeze(-1)
    found = from_starts(lambda s: s + s * s + 1e-3, starts)
    assert found.slow.all()
    assert set(found.kind) <= {"slow", "continuum"}
    np.testing.assert_allclose(found.points[0], [0.0], atol=1e-3)
    np.testing.assert_allclose(found.residual[0], 0.5e-6, rtol=1e-3)
    assert from_starts(lambda s: s + s * s + 1e-1, starts).kind == ()


def within(step: Callable[[Tensor], Tensor], width: int, box: float) -> Points:
    """Search from a box, where states are known to come no further than 1 from 0."""
    generator = torch.Generator().manual_seed(0)

    def draw(count: int) -> Tensor:
        return box * (2 * torch.rand(count, width, generator=generator, dtype=torch.float64) - 1)

    reach = torch.ones(width, dtype=torch.float64)
    return search(step, Starts(torch.zeros(1, width, dtype=torch.float64), draw, 64, 1.0, reach), 1_000_000)


@pytest.mark.parametrize("width", [2, 40])
def test_the_one_point_of_a_slow_memory_is_found_far_from_its_states(width: int) -> None:
    """What is kept to 0.99 and added to at each step settles at a hundred times that; the output shows it at once."""

    def step(s: Tensor) -> Tensor:
        _, memory = s.chunk(2, -1)
        return torch.cat([memory, 0.99 * memory + 0.5], -1)

    found = within(step, width, 1.5)
    np.testing.assert_allclose(found.points, np.full((1, width), 50.0), rtol=1e-8)
    assert found.kind == ("stable",)
    assert (found.reached.tolist(), found.far) == ([found.starts], 0)
    np.testing.assert_allclose(found.time_constants[0, : width // 2], -1 / math.log(0.99), rtol=1e-8)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_ends_in_a_flat_region_out_of_reach_are_no_points(width: int) -> None:
    """Each start stays where it is: 500 in all, some of which come near another one by chance."""
    reach = torch.ones(width, dtype=torch.float64)
    collection = Collection(CountedMap(torch.clone, 10**6), Limits(SLOW, FIXED, 1.0, reach))
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        states = 2 + 8 * torch.rand(125, width, generator=generator, dtype=torch.float64)
        collection.add(Ends(states, torch.zeros(125, dtype=torch.float64), True), independent=True)
    assert (collection.count, collection.far) == (0, 500)


def test_starts_that_meet_out_of_reach_are_at_a_point() -> None:
    """Also if they arrive one after another; guided ones are not counted."""
    reach = torch.ones(2, dtype=torch.float64)
    collection = Collection(CountedMap(torch.clone, 10**6), Limits(SLOW, FIXED, 1.0, reach))
    point = torch.tensor([[5.0, -7.0]], dtype=torch.float64)
    for number, independent in enumerate((True, False, True, True, False), 1):
        collection.add(Ends(point + 1e-9 * number, torch.zeros(1, dtype=torch.float64), True), independent)
        assert (collection.count, collection.far) == ((0, number) if number < 3 else (1, 0))
    np.testing.assert_allclose(collection.points, point, atol=1e-8)
    assert collection.reached.tolist() == [3]


def test_given_starts_and_no_others() -> None:
    """Two starts on one side find only that side's point."""
    found = from_starts(lambda s: torch.tanh(2 * s), torch.tensor([[0.8], [0.9]]))
    side = brentq(lambda h: math.tanh(2 * h) - h, 0.5, 1.0, xtol=1e-14)
    np.testing.assert_allclose(found.points, [[side]], atol=1e-10)
    assert (found.starts, found.stopped) == (2, "starts")


def random_net(width: int, gain: float, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(width, width)) * gain / math.sqrt(width)
    if seed % 2:
        matrix = (matrix + matrix.T) / math.sqrt(2)  # symmetric ones have many points
    return matrix, rng.normal(size=width) * 0.1


def points_by_fsolve(matrix: Array, bias: Array, starts: int) -> Array:
    """What Powell's method finds, each point once."""
    rng = np.random.default_rng(99)
    found: list[Array] = []
    for start in rng.uniform(-1.2, 1.2, (starts, len(bias))):
        point, _, code, _ = fsolve(
            lambda h: np.tanh(matrix @ h + bias) - h,
            start,
            fprime=lambda h: (1 - np.tanh(matrix @ h + bias) ** 2)[:, None] * matrix - np.eye(len(bias)),
            full_output=True,
        )
        fine = code == 1 and np.abs(np.tanh(matrix @ point + bias) - point).max() < 1e-9
        if fine and all(np.abs(point - other).max() > 1e-5 for other in found):
            found.append(point)
    return np.array(found)


def recall_against_fsolve(width: int, gain: float, seed: int, starts: int) -> tuple[float, int]:
    matrix, bias = random_net(width, gain, seed)
    weight, shift = torch.from_numpy(matrix), torch.from_numpy(bias)
    ours = look(lambda s: torch.tanh(s @ weight.T + shift), width, budget=4_000_000).points
    theirs = points_by_fsolve(matrix, bias, starts)
    hits = [np.abs(ours - point).max(1).min() < 1e-6 for point in theirs]
    return float(np.mean(hits)), len(theirs)


def test_random_nets_against_fsolve() -> None:
    cases = [recall_against_fsolve(width, 2.5, seed, 150) for seed, width in enumerate((6, 6, 9, 8))]
    assert sum(count for _, count in cases) > 20
    assert min(recall for recall, _ in cases) >= 0.95


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The iteration is not making good progress")
def test_random_nets_against_fsolve_from_3000_starts() -> None:
    cases = [recall_against_fsolve(width, 2.5, seed, 3_000) for seed, width in enumerate((6, 8, 12, 10, 16, 12))]
    assert sum(count for _, count in cases) > 60
    assert min(recall for recall, _ in cases) >= 0.95


@pytest.mark.long
def test_a_trained_flip_flop_has_a_stable_point_per_memory() -> None:
    """A GRU that was trained to keep three bits: 8 stable points at zero input, one for each."""
    torch.manual_seed(0)
    layer, head = torch.nn.GRU(3, 24), torch.nn.Linear(24, 3)
    optimizer = torch.optim.Adam([*layer.parameters(), *head.parameters()], 1e-2)
    for round_ in range(600):
        x, y = map(torch.from_numpy, flip_flop(40, 32, probability=0.2, seed=round_))
        loss = (head(layer(x)[0]) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimizer.step()
    assert float(loss.detach()) < 0.01
    found = find_points(record(layer, lambda model: head(model(x)[0]).sum()), inputs={"no pulse": np.zeros(3)}).sets[0]
    stable = torch.from_numpy(found.points[np.array(found.kind) == "stable"])
    read = head.double()(stable).sign().int().tolist()
    assert len(read) == 8
    assert {tuple(row) for row in read} == {(a, b, c) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)}
    assert found.recall.fraction > 0.9
