"""What is faster is found by measuring, at little cost, and whatever is chosen leaves the same bits."""

from __future__ import annotations

import subprocess
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from tests.engine.agreement import needs_compiler

from unspool import nn as ours
from unspool.engine import build
from unspool.nn import wavefront

pytestmark = [needs_compiler, pytest.mark.usefixtures("compiling")]

#: Calls whose two ways cost what standard input says: nanoseconds of ONE, of MANY, of MANY after ONE,
#: and the number of calls. Says the calls of each way, and all nanoseconds.
SIMULATION = """
#include <cstdio>
#include "choice.h"
using namespace unspool;

int main() {
    Experience known;
    double one, many, first;
    int calls;
    while (std::scanf("%lf %lf %lf %d", &one, &many, &first, &calls) == 4) {
        int taken[2] = {0, 0};
        double total = 0;
        Way before = ONE;
        for (int call = 0; call < calls; ++call) {
            const Way way = known.choose(1000);
            const double cost = way == ONE ? one : before == MANY ? many : first;
            known.learn(way, 1000, cost);
            before = way;
            total += cost;
            ++taken[way];
        }
        std::printf("%d %d %.0f\\n", taken[ONE], taken[MANY], total);
    }
}
"""


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("choice")
    (folder / "choice.cpp").write_text(SIMULATION, encoding="utf-8")
    command = [str(build.find_compiler()), "-std=c++17", "-O1", "-pthread", "-I", str(build.NATIVE)]
    subprocess.run([*command, str(folder / "choice.cpp"), "-o", str(folder / "choice"), "-ldl"], check=True)
    return folder / "choice"


def simulate(program: Path, *phases: tuple[float, float, float, int]) -> list[tuple[int, int, float]]:
    """Calls of ONE, calls of MANY, and nanoseconds, of each phase."""
    given = "\n".join(" ".join(map(str, phase)) for phase in phases)
    said = subprocess.run([program], input=given, check=True, capture_output=True, text=True).stdout
    return [(int(one), int(many), float(total)) for one, many, total in map(str.split, said.splitlines())]


@pytest.mark.parametrize(
    ("one", "many", "first"),
    [(4e5, 2.5e5, 2.5e5), (4e5, 2.5e5, 2e6), (2.5e5, 4e5, 4e5), (4e5, 3e7, 3e7), (2e8, 1e8, 1e8), (1e8, 2e8, 2e8)],
)
def test_the_slower_way_takes_two_per_cent_of_the_time_at_most(
    one: float, many: float, first: float, simulation: Path
) -> None:
    begun, later = simulate(simulation, (one, many, first, 1000), (one, many, first, 200_000))
    assert begun[0] >= 4 or one > 5e7  # both were tried; one that is long, later
    assert begun[1] >= 4
    assert later[2] <= 1.02 * 200_000 * min(one, many)


def test_it_follows_what_changes(simulation: Path) -> None:
    quiet, busy = (4e5, 2.5e5, 2.5e5, 1000), (4e5, 2e7, 2e7, 1000)
    _, crowded, cleared = simulate(simulation, quiet, busy, (4e5, 2.5e5, 2.5e5, 40_000))
    assert crowded[1] <= 10
    assert cleared[1] > 10_000


def test_one_slow_call_does_not_change_the_choice(simulation: Path) -> None:
    quiet, slow = (4e5, 2.5e5, 2.5e5, 20), (1e8, 1e8, 1e8, 1)
    *_, after = simulate(simulation, quiet, slow, quiet)
    assert after[0] in (0, 4)  # perhaps a trial


def outcome(make: str, rows: int, way: int) -> list[torch.Tensor]:
    """Output, final states and gradients, all calls taking one way."""
    build._load.cache_clear()
    torch.manual_seed(0)
    module = ours.GRU(*{"layer": (5, 64), "stack": (64, 64, 2), "odd": (64, 40, 2)}[make])
    x = torch.randn(9, rows, module.input_size, requires_grad=True)
    threads, found = torch.get_num_threads(), []
    little = patch.multiple(wavefront, LEAST_WORK=0, LEAST_STEP=0)
    torch.set_num_threads(3)
    try:
        flags = (*build.FLAGS, f"-DUNSPOOL_WAY={way}", f"-DUNSPOOL_LONG_WAIT={10**15}")
        with little, patch.object(build, "FLAGS", flags):
            for lengths in (None, [9, 4, 0, 7, 1, 9, 9][:rows]):
                output, state = module(x, lengths=lengths)
                loss = (torch.linspace(-1, 1, output.numel()).view_as(output) * output).sum() + state.square().sum()
                found += [output, state, *torch.autograd.grad(loss, [x, *module.parameters()])]
    finally:
        torch.set_num_threads(threads)
    return found


@pytest.mark.parametrize(("make", "rows"), [("layer", 1), ("layer", 7), ("stack", 1), ("stack", 2), ("odd", 2)])
def test_both_ways_leave_the_same_bits(make: str, rows: int) -> None:
    expected = outcome(make, rows, 1)
    assert all(map(torch.equal, outcome(make, rows, 2), expected))
