"""An exported model on a Cortex-M4 without an operating system, as QEMU plays it, gives the bits of a computer."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.exchange.c.compiled import compile_all, floats
from tests.exchange.c.random_stacks import make_recurrence

from unspool.cache import cache_folder
from unspool.cells import find_cell
from unspool.exchange.c.convert import write_c
from unspool.exchange.c.elf import section_sizes
from unspool.exchange.c.zig import CORTEX_M4, compile_with_zig
from unspool.runtime.network import Layer, Linear, Member, Pooled, Pooling, Stack

BOARD = Path(__file__).parent / "cortex_m4"
OPTIONS = tuple(option for option in CORTEX_M4 if option not in ("-c", "-nostdlib"))
LINKED = (*OPTIONS, "-fno-math-errno", "-T", str(BOARD / "link.ld"))
STEPS = 5

pytest.importorskip("ziglang")


def stack_of(cell: str, inputs: int, units: int) -> Stack:
    return Stack((Layer((make_recurrence(find_cell(cell), inputs, units, 1),), False),), False, 0)


def expected_bits(folder: Path, stack: Stack) -> list[int]:
    """What the same C gives here, without fused multiply-add."""
    (model,) = compile_all(folder, [write_c(stack, "model")], options=("-O1", "-ffp-contract=off")).values()
    found = floats(STEPS, stack.output_size)
    for t in range(STEPS):
        x = [0.125 * ((7 * t + 3 * j) % 16 - 8) for j in range(stack.input_size)]
        model("step", np.array(x, np.float32), found[t])
    return [int(word) for word in found.view(np.uint32).ravel()]


@pytest.mark.parametrize("int8", [False, True])
def test_weights_are_flash_and_only_the_state_is_memory(int8: bool) -> None:
    stack = stack_of("lstm", 3, 32)
    sizes = section_sizes(compile_with_zig(write_c(stack, "model", int8=int8), CORTEX_M4))
    weights = 4 * 32 * (3 + 32) * (1 if int8 else 4)
    assert sizes["flash"] - weights < 8000
    assert sizes["flash"] > weights
    assert sizes["ram"] == 0  # no globals: the caller has the state


@pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="QEMU for ARM is not installed")
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_cortex_m4_gives_the_same_bits(tmp_path: Path, cell: str) -> None:
    stack = stack_of(cell, 3, 16)
    image = compile_with_zig(
        write_c(stack, "model"), (*LINKED, "-ffp-contract=off"), {"board.c": (BOARD / "board.c").read_text()}
    )
    path = tmp_path / "model.elf"
    path.write_bytes(image)
    command = ["qemu-system-arm", "-machine", "mps2-an386", "-nographic", "-monitor", "none", "-serial", "none"]
    command += ["-semihosting-config", "enable=on,target=native", "-kernel", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    words = [int(line, 16) for line in (done.stdout + done.stderr).split()]
    assert words[:-1] == expected_bits(tmp_path, stack)
    assert words[-1] < 4096  # bytes of stack


@pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="QEMU for ARM is not installed")
def test_the_example_of_the_documents_runs(tmp_path: Path) -> None:
    program, link, commands = (documented("### Microcontrollers", kind) for kind in ("c", "ld", "sh"))
    written = write_c(walking(), "motion", int8=True)
    files = {"main.c": program, "link.ld": link, "motion.c": written.code, "motion.h": written.header}
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    cache = {"ZIG_GLOBAL_CACHE_DIR": str(cache_folder() / "zig"), "ZIG_LOCAL_CACHE_DIR": str(tmp_path / "cache")}
    for command in commands.replace("\\\n", " ").splitlines():
        words = [sys.executable if word == "python" else word for word in shlex.split(command)]
        done = subprocess.run(
            words, cwd=tmp_path, env=os.environ | cache, capture_output=True, text=True, check=True, timeout=120
        )
    assert done.stdout + done.stderr == "walking\n"


def test_the_program_in_c_of_the_documents_runs(tmp_path: Path) -> None:
    written = write_c(walking(), "motion")
    files = {"main.c": documented("## C\n", "c"), "motion.c": written.code, "motion.h": written.header}
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    subprocess.run(["gcc", *strict, "main.c", "motion.c", "-lm", "-o", "motion"], cwd=tmp_path, check=True)
    done = subprocess.run(
        [tmp_path / "motion"], input="0.1 0.2 0.3\n1 2 3\n", capture_output=True, text=True, check=True
    )
    assert done.stdout == "walking: 0.73\n" * 2  # 1 / (1 + 1/e)


def documented(heading: str, kind: str) -> str:
    """The first block of a kind below a heading of the page about deployment."""
    text = (Path(__file__).parents[3] / "docs" / "deploy.md").read_text(encoding="utf-8")
    found = re.search(rf"```{kind}\n(.*?)```", text[text.index(heading) :], re.DOTALL)
    assert found is not None
    return found[1]


def walking() -> Pooled:
    """A GRU of 16 units over 3 numbers whose head always prefers the second of two labels, by e to 1."""
    head = Linear(np.zeros((2, 16), np.float32), np.array([0, 1], np.float32))
    member = Member(None, stack_of("gru", 3, 16), 0, None, Pooling("last", False, None, None), head)
    return Pooled("classify", (member,), "softmax")
