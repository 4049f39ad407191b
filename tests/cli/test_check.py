"""unspool check: whatever can be broken is found, printed with its remedy, and gives exit code 1."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from unspool.cli import check
from unspool.cli.main import main
from unspool.engine import build
from unspool.nn import GRU, LSTM, RNN, Recurrent, route
from unspool.nn.drop_in import DropIn
from unspool.nn.entry import Entry
from unspool.nn.runner import Runner

Output = pytest.CaptureFixture[str]


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["check", *arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


@pytest.fixture
def sound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which everything works, without using a compiler."""
    tmp_path.chmod(0o700)
    monkeypatch.setenv("UNSPOOL_CACHE", str(tmp_path))
    monkeypatch.delenv("UNSPOOL_ENGINE", raising=False)
    for kind in (Recurrent, DropIn):
        monkeypatch.setattr(kind, "engine", "kernel: float32 on the CPU")
    monkeypatch.setattr(check, "difference", lambda _: 1e-7)


def facts(capsys: Output) -> dict[str, Any]:
    document = json.loads(capsys.readouterr().out)
    return {"ok": document["ok"]} | {fact["name"]: fact for fact in document["facts"]}


@pytest.mark.usefixtures("sound")
def test_all_is_well(capsys: Output, tmp_path: Path) -> None:
    assert call() == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("✓ ") for line in lines)
    text = "\n".join(lines)
    assert torch.__version__ in text
    assert f"{torch.get_num_threads()} of" in text
    assert build.instruction_set() in text
    assert str(tmp_path) in text
    for name in ("Recurrent", "RNN", "GRU", "LSTM"):
        assert re.search(f"✓ layer: {name} +kernel: float32 on the CPU; ready after", text)


@pytest.mark.usefixtures("sound")
def test_json(capsys: Output) -> None:
    assert call("--json") == 0
    found = facts(capsys)
    assert found["ok"] is True
    assert found["torch"] == {"name": "torch", "value": torch.__version__, "ok": True, "remedy": ""}


@pytest.mark.usefixtures("sound")
def test_quiet_when_all_is_well(capsys: Output) -> None:
    assert call("--quiet") == 0
    assert capsys.readouterr().out == ""


def test_kernels_that_are_off_are_not_broken(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    assert call() == 0
    text = capsys.readouterr().out
    assert "UNSPOOL_ENGINE=off" in text
    assert "every cell runs eagerly" in text
    assert re.search("✓ layer: LSTM +torch's own: UNSPOOL_ENGINE=off", text)


@pytest.mark.usefixtures("sound")
def test_a_cache_that_others_can_write_is_broken(tmp_path: Path, capsys: Output) -> None:
    tmp_path.chmod(0o777)
    assert call("--quiet") == 1
    text = capsys.readouterr().out
    assert text.startswith("✗ cache")
    assert "chmod 700" in text


@pytest.mark.usefixtures("sound")
def test_a_cache_that_cannot_be_kept_is_broken(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    def temporary() -> Path:
        warnings.warn("/x cannot be written; kernels are built in /tmp/y and not kept.", RuntimeWarning, stacklevel=1)
        return Path("/tmp/y")

    monkeypatch.setattr(build, "kernel_folder", temporary)
    assert call("--json") == 1
    found = facts(capsys)
    assert found["ok"] is False
    assert found["cache"]["ok"] is False
    assert "/x cannot be written" in found["cache"]["remedy"]


@pytest.mark.usefixtures("sound")
@pytest.mark.parametrize(("kind", "name"), [(Recurrent, "layer: Recurrent"), (DropIn, "layer: LSTM")])
def test_a_layer_that_runs_eagerly_is_broken(
    kind: type, name: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setattr(kind, "engine", "eager: c++ failed on the kernel")
    assert call("--json") == 1
    assert facts(capsys)[name] == {
        "name": name,
        "value": "eager: c++ failed on the kernel",
        "ok": False,
        "remedy": "Remove the cause. Until then the layer works, but slowly.",
    }


@pytest.mark.usefixtures("sound")
@pytest.mark.parametrize("error", [1e-3, math.nan])
def test_a_kernel_that_is_wrong_is_broken(error: float, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setattr(check, "difference", lambda _: error)
    assert call("--json") == 1
    found = facts(capsys)
    assert "differs from the eager loop" in found["layer: Recurrent"]["value"]
    assert "differs from torch.nn" in found["layer: LSTM"]["value"]


@pytest.mark.usefixtures("sound")
def test_a_missing_compiler_is_said_and_users_cells_are_not_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setattr(build, "find_compiler", lambda: None)
    monkeypatch.setattr(check, "ENTRY", Entry())
    assert call("--json") == 0
    found = facts(capsys)
    assert found["small calls"]["value"].startswith("through Python: no C++ compiler")
    assert "users' cells run eagerly" in found["compiler"]["value"]
    assert "layer: a user's cell" not in found
    assert "layer: LSTM" in found


@pytest.mark.usefixtures("sound")
def test_a_compiler_that_does_not_run_is_broken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Output
) -> None:
    compiler = tmp_path / "c++"
    compiler.write_text("#!/bin/sh\necho out of order >&2\nexit 3\n", encoding="utf-8")
    compiler.chmod(0o700)
    monkeypatch.setattr(build, "find_compiler", lambda: str(compiler))
    assert call("--json") == 1
    assert facts(capsys)["compiler"]["remedy"] == "out of order"


@pytest.mark.parametrize("make", [partial(Recurrent, "lstm"), RNN, GRU, LSTM], ids=["Recurrent", "RNN", "GRU", "LSTM"])
def test_the_difference_is_seen(make: Callable[[int, int], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    monkeypatch.setattr(route, "_needs_loop", lambda _: True)  # a drop-in would run torch.nn's forward
    layer = make(5, 7)
    assert check.difference(layer) < 1e-6
    run = Runner.run

    def spoiled(self: Runner, *arguments: Any) -> Any:
        output, state, values = run(self, *arguments)
        return output * 1.001, state, values

    monkeypatch.setattr(Runner, "run", spoiled)
    assert check.difference(layer) > 5e-4


@pytest.mark.long
def test_kernels_of_this_machine(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.delenv("UNSPOOL_ENGINE", raising=False)
    assert call("--json") == 0
    found = facts(capsys)
    for name in ("Recurrent", "RNN", "GRU", "LSTM", "a user's cell"):
        assert found[f"layer: {name}"]["value"].startswith("kernel: float32 on the CPU; ready after")
