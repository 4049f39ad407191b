"""unspool export --onnx: a run in ONNX Runtime, or one clear line and nothing written."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.cli.calling import call, refused
from tests.runs.tiny_run import TinyRun

from unspool.runtime.language import LanguagePlayer
from unspool.runtime.network import Language
from unspool.runtime.run import read_run

onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("own_cache")
Capture = pytest.CaptureFixture[str]


def test_a_run_predicts_in_onnx_runtime(tiny_run: TinyRun, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "book.onnx"
    assert call("export", tiny_run.path, "--onnx", path) == 0
    said = capsys.readouterr().out
    assert "opset 17" in said
    assert float(said.partition("at most ")[2].split()[0]) <= 1e-5
    kept = read_run(tiny_run.path)
    assert json.loads((tmp_path / "book.json").read_text(encoding="utf-8")) == kept.vocabulary
    assert isinstance(kept.network, Language)
    ids = np.array([[1, 2, 3], [3, 2, 1]])
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    states = {one.name: np.zeros((2, one.shape[1]), np.float32) for one in session.get_inputs()[1:]}
    (logits,) = session.run(["logits"], {"tokens": ids, **states})
    expected, _ = LanguagePlayer(kept.network).predict(ids.T, None)
    np.testing.assert_allclose(logits[:, -1], expected, rtol=0, atol=1e-5)


def test_bad_targets_and_runs_are_refused(tiny_run: TinyRun, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "book.json").write_text("mine")
    assert "exists already" in refused(capsys, "export", tiny_run.path, "--onnx", tmp_path / "book.onnx")
    assert [one.name for one in tmp_path.iterdir()] == ["book.json"]
    assert "no run" in refused(capsys, "export", tmp_path / "none", "--onnx", tmp_path / "b.onnx")
    assert call("export", tiny_run.path, "--onnx", tmp_path / "book.onnx", "--overwrite") == 0
    assert "tokens" in (tmp_path / "book.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "targets",
    [{"--c": "y.c", "--onnx": "y.h"}, {"--c": "y.json", "--onnx": "y.onnx"}, {"--onnx": "y.json"}],
    ids=["header", "json", "json alone"],
)
def test_two_files_of_one_name_are_refused(
    tiny_run: TinyRun, tmp_path: Path, capsys: Capture, targets: dict[str, str]
) -> None:
    arguments = [one for option, name in targets.items() for one in (option, tmp_path / name)]
    assert "stands for two files" in refused(capsys, "export", tiny_run.path, *arguments)
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named(
    tiny_run: TinyRun, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("unspool.exchange.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert call("export", tiny_run.path, "--onnx", tmp_path / "book.onnx") == 1
    assert "pip install 'unspool[onnx]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
