"""unspool import: the report, the comparison with the source, and a run that can be used."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.cli.calling import call, refused
from tests.exchange.test_torch_import import LanguageModel
from torch import nn

import unspool

Capture = pytest.CaptureFixture[str]


def test_a_language_model_becomes_a_run(tmp_path: Path, capsys: Capture) -> None:
    torch.manual_seed(0)
    torch.save(LanguageModel(nn.GRU, tied=True).state_dict(), tmp_path / "lm.pt")
    (tmp_path / "tokens.txt").write_text("\n".join("abcdefghijk"))
    arguments = (tmp_path / "lm.pt", "--vocabulary", tmp_path / "tokens.txt", "--out", tmp_path / "run")
    assert call("import", *arguments) == 0
    said = capsys.readouterr().out
    assert "rnn: GRU(6, 6, batch_first=True)" in said
    assert "note: decoder is tied to encoder" in said
    assert "largest difference from torch.nn" in said
    assert float(said.partition("cpu: ")[2].split()[0]) < 1e-6
    assert call("generate", tmp_path / "run", "--prompt", "a b", "--count", 4, "--seed", 1) == 0
    assert set(capsys.readouterr().out.strip()) <= set("abcdefghijk ")
    assert "tokenizer: char" in said  # by the tokens
    assert call("import", *arguments, "--tokenizer", "word", "--overwrite") == 0
    assert "tokenizer: word" in capsys.readouterr().out
    assert call("generate", tmp_path / "run", "--prompt", "a b", "--count", 4, "--seed", 1) == 0
    assert set(capsys.readouterr().out.split()) <= set("abcdefghijk")
    assert "exists" in refused(capsys, "import", *arguments)


def test_a_node_of_onnx_is_compared_with_onnx_runtime(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("onnxruntime")
    unspool.export.onnx(unspool.nn.Stack("gru", 3, 4, 2), tmp_path / "two.onnx")
    assert call("import", tmp_path / "two.onnx") == 0
    said = capsys.readouterr().out
    assert "onnx: 2 layer(s)" in said
    assert float(said.partition("largest difference from ONNX Runtime")[2].split()[1]) < 1e-6


def test_bad_input_is_one_clear_line(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "lm.pt").write_bytes(b"no")
    assert "known ending" in refused(capsys, "import", tmp_path / "lm.txt")
    assert "not a file of torch.save" in refused(capsys, "import", tmp_path / "lm.pt")
    torch.save(nn.GRU(3, 4).state_dict(), tmp_path / "gru.pt")
    assert "--vocabulary" in refused(capsys, "import", tmp_path / "gru.pt", "--out", tmp_path / "run")
    (tmp_path / "v").write_text("a\nb")
    both = ("--vocabulary", tmp_path / "v", "--out", tmp_path / "run")
    assert "language" not in refused(capsys, "import", tmp_path / "gru.pt", *both)
    assert "tokenizer" in refused(capsys, "import", tmp_path / "gru.pt", *both, "--tokenizer", "bpe")
    assert not (tmp_path / "run").exists()


def test_layers_that_compute_something_else_are_refused(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lm.pt"
    torch.save(torch.nn.LSTM(3, 4).state_dict(), path)
    monkeypatch.setattr("unspool.cli.import_.compare_with_source", lambda *_: (0.5, "torch.nn"))
    assert "gives other numbers here than in torch.nn, by 5.0e-01" in refused(capsys, "import", path)
