"""unspool xray: a run, two runs, a torch model; and training that ends with an X-ray."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from tests.cli.calling import call, refused
from tests.runs.tiny_run import OPTIONS, TinyRun

from unspool.insight import measurements

pytestmark = pytest.mark.usefixtures("own_cache", "quick_look")
Capture = pytest.CaptureFixture[str]

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.GRU(3, 4)

    def forward(self, x):
        return self.rnn(x)[0]

def build():
    return Net()

def broken():
    raise ValueError("no model today")

def number():
    return 3

def leaves():
    raise SystemExit(3)

class Two(Net):
    def forward(self, x, y):
        return self.rnn(x)[0] + y

def double():
    return Net().double()
"""


@pytest.fixture
def quick_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two measures in place of all: what the command does with them is the same."""
    whole = measurements.take_measurements
    monkeypatch.setattr(
        "unspool.insight.examination.take_measurements",
        lambda specimen, measures, progress, only: whole(specimen, measures, progress, ("flow", "gates", "surprise")),
    )


@pytest.fixture
def torch_model(tmp_path: Path) -> tuple[str, Path]:
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    np.save(tmp_path / "batch.npy", np.random.default_rng(0).normal(size=(9, 2, 3)))
    return f"{tmp_path / 'model.py'}:build", tmp_path / "batch.npy"


def test_a_run_gets_a_page_and_words(tiny_run: TinyRun, tmp_path: Path, capsys: Capture) -> None:
    assert call("xray", tiny_run.path, "--out", tmp_path / "x.html") == 0
    said = capsys.readouterr().out
    assert "X-ray of run" in said
    assert f"Report: {tmp_path / 'x.html'}" in said
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "Where gradients die" in page
    assert "http-equiv" in page


def test_a_run_in_chinese(tiny_run: TinyRun, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert call("xray", tiny_run.path, "--out", tmp_path / "x.html") == 0
    said = capsys.readouterr().out
    assert "run 的 X 光" in said
    assert f"报告：{tmp_path / 'x.html'}" in said
    assert "梯度在哪里消失" in (tmp_path / "x.html").read_text(encoding="utf-8")
    assert call("xray", tiny_run.path, "--out", tmp_path / "x.html", "--lang", "en") == 0
    assert "X-ray of run" in capsys.readouterr().out
    assert "--lang" in refused(capsys, "xray", tiny_run.path, "--lang", "de")


def test_the_page_goes_into_the_run(tiny_run: TinyRun, capsys: Capture) -> None:
    assert call("xray", tiny_run.path, "--quiet") == 0
    assert capsys.readouterr().out == ""
    assert (tiny_run.path / "xray.html").stat().st_size < 8e6


def test_numbers_as_json(tiny_run: TinyRun, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "other.txt").write_text("the lazy fox sleeps; the dog jumps.\n" * 40, encoding="utf-8")
    options = "--data", tmp_path / "other.txt", "--out", tmp_path / "x.html", "--json"
    assert call("xray", tiny_run.path, *options) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert len(numbers["flow"]["horizon"]) == 1
    assert numbers["surprise"]["mean"] > 0


def test_two_runs_side_by_side(tiny_run: TinyRun, tmp_path: Path, capsys: Capture) -> None:
    assert call("xray", tiny_run.path, tiny_run.path, "--out", tmp_path / "both.html") == 0
    assert capsys.readouterr().out.count("X-ray of run") == 2
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert "side" in page
    assert "The highest layers: CKA 1.00, RSA 1.00." in page


def test_a_model_of_torch(torch_model: tuple[str, Path], tmp_path: Path, capsys: Capture) -> None:
    build, batch = torch_model
    weights = {f"rnn.{name}": value for name, value in torch.nn.GRU(3, 4).state_dict().items()}
    safetensors.torch.save_file(weights, tmp_path / "w.safetensors")
    given = "--torch", build, "--input", batch, "--weights", tmp_path / "w.safetensors", "--out", tmp_path / "x.html"
    assert call("xray", *given) == 0
    assert "X-ray of Net" in capsys.readouterr().out
    safetensors.torch.save_file({"rnn.weight_ih_l0": torch.zeros(2, 2)}, tmp_path / "w.safetensors")
    assert call("xray", *given) == 2
    assert "does not fit the model" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "is not one run or two"),
        (("--torch", "model.py:build", "runs/a"), "is not one run or two"),
        (("--torch", "model.py"), "is not FILE.py:NAME"),
        (("--torch", "gone.py:build", "--input", "x.npy"), "does not exist"),
        (("--torch", "model.py:build"), "--input batch.npy"),
        (("runs/a", "--input", "x.npy"), "does not apply here"),
        (("--torch", "model.py:build", "--input", "x.npy", "--data", "a.txt"), "does not apply here"),
    ],
)
def test_wrong_usage_is_told(arguments: tuple[str, ...], words: str, capsys: Capture) -> None:
    assert words in refused(capsys, "xray", *arguments)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("broken", "no model today"),
        ("number", "not a module"),
        ("gone", "is not defined there"),
        ("leaves", "SystemExit"),
        ("Two", "missing 1 required positional argument"),
    ],
)
def test_what_a_file_makes_may_be_no_model(
    function: str, words: str, torch_model: tuple[str, Path], capsys: Capture
) -> None:
    build, batch = torch_model
    assert call("xray", "--torch", build.replace("build", function), "--input", batch) == 2
    assert words in capsys.readouterr().err


def test_weights_that_may_hold_code_and_batches_that_hold_none(
    torch_model: tuple[str, Path], tmp_path: Path, capsys: Capture
) -> None:
    build, batch = torch_model
    torch.save({}, tmp_path / "w.pt")
    assert "safetensors" in refused(capsys, "xray", "--torch", build, "--input", batch, "--weights", tmp_path / "w.pt")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object))
    assert call("xray", "--torch", build, "--input", tmp_path / "objects.npy") == 2
    assert "cannot be read" in capsys.readouterr().err
    np.save(tmp_path / "nan.npy", np.full((4, 2, 3), np.nan))
    assert call("xray", "--torch", build, "--input", tmp_path / "nan.npy") == 2
    assert "NaN" in capsys.readouterr().err


def test_training_ends_with_an_xray(tiny_run: TinyRun, tmp_path: Path, capsys: Capture) -> None:
    options = [f"{name}={value}" for name, value in OPTIONS.items() if name not in ("engine", "steps")]
    settings = [word for option in options for word in ("--set", option)]
    given = "train", tiny_run.text, "--out", tmp_path / "run", "--steps", 40, *settings, "--xray-every", 1
    assert call(*given, "--lang", "en") == 0
    said = capsys.readouterr().out
    assert f"Report: {tmp_path / 'run' / 'xray.html'}" in said
    assert f"Training timeline: {tmp_path / 'run' / 'timeline.html'}" in said
    timeline = (tmp_path / "run" / "timeline.html").read_text(encoding="utf-8")
    assert "step 20" in timeline
    assert "step 40" in timeline


def test_a_batch_is_read_in_the_models_numbers(torch_model: tuple[str, Path], tmp_path: Path, capsys: Capture) -> None:
    build, batch = torch_model
    np.save(tmp_path / "whole.npy", np.ones((9, 2, 3), np.uint8))
    for file in (batch, tmp_path / "whole.npy"):
        given = "--torch", build.replace("build", "double"), "--input", file, "--out", tmp_path / "x.html"
        assert call("xray", *given) == 0
