"""No call of the public API crashes, gives numbers that are not finite, or lets an inner error out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.engine.agreement import needs_compiler
from tests.fuzz.run import is_legitimate

from unspool.errors import ShapeError

pytestmark = needs_compiler

ROOT = Path(__file__).parent.parent.parent


def fuzz(first: int, count: int, folder: Path) -> list[str]:
    """What is wrong with the calls of these seeds. A call that kills its process is one line, and the others go on."""
    progress, defects = folder / "progress", []
    end = first + count
    while first < end:
        command = [sys.executable, "-m", "tests.fuzz.run", str(first), str(end - first)]
        environment = os.environ | {"PROGRESS": str(progress), "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "src")))
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        defects += [f"{found['seed']}: {found['wrong']}" for found in map(json.loads, done.stdout.splitlines())]
        last = int(progress.read_text(encoding="ascii"))
        if done.returncode not in (0, 1):
            defects.append(f"{last}: the process ended with {done.returncode}: {done.stderr[-2000:]}")
        first = last + 1
    return defects


def test_a_few_hundred_calls(tmp_path: Path) -> None:
    assert not fuzz(0, 250, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_twenty_thousand_calls(part: int, tmp_path: Path) -> None:
    assert not fuzz(1000 * part, 1000, tmp_path)


def test_which_errors_are_legitimate() -> None:
    def error_of(act: object) -> BaseException:
        with pytest.raises(Exception) as caught:
            act()  # type: ignore[operator]
        return caught.value

    def refuse() -> None:
        raise ShapeError.of("x", (2, 3), "is too wide", "Narrow it")

    assert is_legitimate(error_of(refuse))
    assert is_legitimate(error_of(lambda: torch.zeros(2) @ torch.zeros(3)))
    assert is_legitimate(error_of(lambda: torch.tanh(None)))  # type: ignore[arg-type]
    assert is_legitimate(error_of(lambda: torch.nn.Linear(2, 3)(None)))
    for mine in (lambda: [][1], lambda: {}["x"], lambda: 1 // 0, lambda: None.shape, lambda: int("x")):  # type: ignore[attr-defined, index]
        assert not is_legitimate(error_of(mine))
