"""Exported stacks of random architectures and cells, compiled, give what their players give in float64."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.exchange.c.compiled import compile_all, each_compiler, floats
from tests.exchange.c.random_stacks import cell_stack, compare, published_stack, random_stack
from tests.variants import PUBLISHED

from unspool.exchange.c.convert import write_c

TOLERANCE = 1e-6
WARNINGS = ("-O1",)


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Players compute by the equations, in NumPy."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


def check(
    folder: Path, stacks: range, cells: range, compiler: str = "gcc", options: tuple[str, ...] = WARNINGS
) -> None:
    """Compile all in one call, and compare each."""
    made = {f"stack{seed}": (seed, random_stack(seed)) for seed in stacks}
    made |= {f"cell{seed}": (seed, cell_stack(seed)) for seed in cells}
    models = compile_all(folder, [write_c(stack, name) for name, (_, stack) in made.items()], compiler, options)
    found = {name: compare(models[name], stack, seed) for name, (seed, stack) in made.items()}
    assert len(found) == len(stacks) + len(cells)
    wrong = {name: value for name, value in found.items() if not value <= TOLERANCE}
    assert not wrong


def test_stacks_and_cells_give_what_their_players_give(tmp_path: Path) -> None:
    check(tmp_path, range(12), range(8))


def test_every_published_cell_gives_what_its_player_gives(tmp_path: Path) -> None:
    made = {f"c{place}": published_stack(name) for place, name in enumerate(PUBLISHED)}
    models = compile_all(tmp_path, [write_c(stack, name) for name, stack in made.items()], "gcc", WARNINGS)
    found = {PUBLISHED[int(name[1:])]: compare(models[name], stack, 1) for name, stack in made.items()}
    assert len(found) == len(PUBLISHED)
    # gla divides what its heads show by its deviation, which is small at first: rounding grows with it
    limits = {**dict.fromkeys(found, TOLERANCE), "gla": 10 * TOLERANCE}
    assert {name: value for name, value in found.items() if not value <= limits[name]} == {}


def test_in_parts_the_output_has_the_same_bits(tmp_path: Path) -> None:
    seed = next(seed for seed in range(50) if len(random_stack(seed).layers) == 2 and not random_stack(seed).delay)
    stack = random_stack(seed)
    (model,) = compile_all(tmp_path, [write_c(stack, "parts")]).values()
    x = np.random.default_rng(0).standard_normal((7, stack.input_size)).astype(np.float32)
    whole, parts = floats(7, stack.output_size), floats(7, stack.output_size)
    model("run", x, 7, whole)
    model.start()
    model("run", x[:3], 3, parts[:3])
    for t in range(3, 7):
        model("step", x[t], parts[t])
    assert whole.tobytes() == parts.tobytes()


@pytest.mark.long
@each_compiler
def test_200_architectures_and_60_cells(tmp_path: Path, compiler: str) -> None:
    check(tmp_path, range(200), range(60), compiler)


@pytest.mark.long
@each_compiler
def test_200_architectures_and_60_cells_under_sanitizers(tmp_path: Path, compiler: str) -> None:
    """In a process of its own, whose memory the sanitizer watches; Debian's clang has no runtime of ASan beside it."""
    options, preloaded = ["-O1", "-fsanitize=undefined", "-fsanitize-trap=undefined"], {}
    if compiler == "gcc":
        options = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        found = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
        preloaded = {"LD_PRELOAD": found.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    script = (
        "from pathlib import Path; from tests.exchange.c.test_stacks import check; "
        f"check(Path({str(tmp_path)!r}), range(200), range(60), {compiler!r}, tuple({options!r}))"
    )
    environment = {**os.environ, **preloaded, "UNSPOOL_ENGINE": "off"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
