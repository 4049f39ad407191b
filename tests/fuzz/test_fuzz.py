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
from tests.fuzz import run, targets
from tests.fuzz.run import FOUND, is_legitimate

from unspool.errors import ShapeError
from unspool.nn import between_layers

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
        if not progress.exists():
            return [*defects, f"{first}: the process did not begin: {done.stderr[-2000:]}"]
        last = int(progress.read_text(encoding="ascii"))
        if done.returncode not in (0, FOUND):
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


def test_operations_that_we_give_what_they_refuse_are_defects() -> None:
    layer = torch.nn.LSTM(3, 4, bidirectional=True)
    with pytest.raises(RuntimeError) as caught:
        between_layers.join_directions(layer, [torch.zeros(2), torch.zeros(2, 3)])
    assert not is_legitimate(caught.value)


def test_an_error_while_the_target_is_made_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: targets.Sizes) -> targets.Target:
        raise ShapeError("made wrongly")

    monkeypatch.setattr(run, "TARGETS", {"broken": broken})
    assert "broken, while it is made: ShapeError: made wrongly" in str(run.call(0))


def test_memory_that_is_gone_does_not_excuse_what_is_not_finite() -> None:
    gone = torch.zeros(3)
    gone.untyped_storage().resize_(0)
    assert run._is_finite(gone)
    assert not run._is_finite(torch.tensor([torch.nan]))
