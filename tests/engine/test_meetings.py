"""Threads that meet after every step part where the cores belong to others, at any step, and with the same bits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch
from tests.engine.agreement import needs_compiler

from unspool.engine import build
from unspool.nn import Recurrent

pytestmark = [needs_compiler, pytest.mark.usefixtures("compiling")]

WAITING = """
#include <cstdio>
#include <string>
#include <unistd.h>
#include "parallel.h"
using namespace unspool;

int main() {
    // Two threads that meet; in the second round one of them comes 400 ms late.
    for (bool late : {false, true}) {
        Barrier barrier;
        Barrier::Place places[2];
        barrier.begin(places);
        std::string heard[2];
        auto go = [&](int thread) {
            for (int step = 0; step < 6; ++step) {
                if (late && thread && step == 1) usleep(400000);
                const bool part = barrier.meet_or_part(thread, 2);
                heard[thread] += part ? 'x' : '.';
                if (part) return;
            }
        };
        std::thread other(go, 1);
        go(0);
        other.join();
        std::printf("%s %s\\n", heard[0].c_str(), heard[1].c_str());
    }
}
"""


def test_both_threads_hear_that_they_part(tmp_path: Path) -> None:
    source = tmp_path / "waiting.cpp"
    source.write_text(WAITING, encoding="utf-8")
    command = [str(build.find_compiler()), "-std=c++17", "-O1", "-pthread", "-I", str(build.NATIVE), str(source)]
    # A wait of less than 200 ms, such as for a thread that has only just begun, is none here.
    subprocess.run([*command, "-DUNSPOOL_LONG_WAIT=200000000", "-o", str(tmp_path / "waiting"), "-ldl"], check=True)
    said = subprocess.run([str(tmp_path / "waiting")], check=True, capture_output=True, text=True).stdout.splitlines()
    assert [line.split() for line in said] == [["......", "......"], ["..x", "..x"]]


def results(cell: str, rows: int, forward: int, backward: int) -> list[torch.Tensor]:
    """Output, final states and gradients with so many threads in each pass."""
    torch.manual_seed(0)
    layer = Recurrent(cell, 5, 64)  # units for several threads
    x = torch.randn(9, rows, 5, requires_grad=True)
    threads, found = torch.get_num_threads(), []
    try:
        for lengths in (None, [9, 4, 0, 7, 1, 9, 9][:rows]):
            torch.set_num_threads(forward)
            output, state = layer(x, lengths=lengths)
            states = state if isinstance(state, tuple) else (state,)
            weights = torch.linspace(-1, 1, output.numel()).view_as(output)
            loss = (weights * output).sum() + sum(part.square().sum() for part in states)
            torch.set_num_threads(backward)
            found += [output, *states, *torch.autograd.grad(loss, [x, *layer.parameters()])]
    finally:
        torch.set_num_threads(threads)
    return found


@pytest.mark.parametrize("cell", ["lstm", "rhn"])
@pytest.mark.parametrize("meeting", [1, 2, 7])
def test_threads_that_part_leave_the_same_bits(cell: str, meeting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, f"-DUNSPOOL_LONG_WAIT=-{meeting}", "-DUNSPOOL_WAY=2"))
    alone = results(cell, 2, 1, 1)
    for forward, backward in ((3, 1), (1, 3), (2, 2)):
        assert all(map(torch.equal, results(cell, 2, forward, backward), alone))
