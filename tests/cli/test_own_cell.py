"""A user's cell in training: from a file or from Python, kept as equations, and never imported again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from tests.cli.calling import call, refused
from tests.runs.tiny_run import TEXT, content

import unspool
from unspool import Cell, sigmoid, tanh
from unspool.cells.saved import SavedCell
from unspool.errors import ArgumentError, DataError
from unspool.runs.load import load_run
from unspool.runs.train import plan

pytestmark = pytest.mark.usefixtures("own_cache")

Capture = pytest.CaptureFixture[str]
SOURCE = '''\
from unspool import Cell, sigmoid, tanh


class Minimal(Cell):
    """Minimal gated unit."""

    def step(self, x, h):
        f = sigmoid(self.linear("f", x, h))
        n = tanh(self.linear("n", x, f * h))
        return (1 - f) * h + f * n
'''
SMALL = ["--hidden", "8", "--batch-size", "4", "--bptt", "8", "--eval-every", "10"]


class Minimal(Cell):
    """The same cell as in SOURCE."""

    def step(self, x: Any, h: Any) -> Any:
        f = sigmoid(self.linear("f", x, h))
        n = tanh(self.linear("n", x, f * h))
        return (1 - f) * h + f * n


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands run in, with a text and a file of a cell."""
    (tmp_path / "book.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "mine.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("unspool.tasks.lm.SAMPLE", 20)
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")  # kernels of users' cells have their own tests
    return tmp_path


def layers_of(learner: Any) -> Any:
    return learner.backbone.layers


def weights(run: str) -> dict[str, Any]:
    return load_file(f"{run}/model.safetensors")


def test_trained_killed_resumed_and_used_after_its_file_is_gone(folder: Path, capsys: Capture) -> None:
    """To the bits of a run that was not interrupted."""
    command = ["train", "book.txt", "--cell", "mine.py:Minimal", *SMALL, "--steps", "40"]
    assert call(*command, "--out", "whole", "--quiet") == 0
    words = [sys.executable, "-m", "unspool", *command, "--out", "run", "--json", "--checkpoint-every", "5"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "saved" and event["step"] >= 10:
                break
        (folder / "mine.py").unlink()
        process.send_signal(signal.SIGKILL)
    assert not Path("run/MODEL_CARD.md").exists()
    assert call(*command, "--out", "run", "--resume", "--quiet", "--checkpoint-every", "5") == 0
    for name, value in weights("whole").items():
        np.testing.assert_array_equal(weights("run")[name], value)
    capsys.readouterr()
    assert call("evaluate", "run") == 0
    assert "perplexity" in capsys.readouterr().out
    assert call("generate", "run", "--count", "30", "--seed", "1") == 0
    assert len(capsys.readouterr().out) > 20
    assert call("xray", "run", "--json") == 0
    assert "flow" in json.loads(capsys.readouterr().out)
    assert "Minimal" in Path("run/xray.html").read_text(encoding="utf-8")
    assert call("train", "--config", "run/config.toml", "--steps", "2", "--out", "again", "--quiet") == 0


def test_the_equations_are_kept_as_data(folder: Path) -> None:
    call("train", "book.txt", "--cell", "mine.py:Minimal", *SMALL, "--steps", "2", "--out", "run", "--quiet")
    document = json.loads(Path("run/cell.json").read_text(encoding="utf-8"))
    assert list(document["cells"]) == ["mine.py:Minimal"]
    (folder / "mine.py").write_text("raise SystemExit('this file was run')\n", encoding="utf-8")
    _, _, learner = load_run("run")
    assert [type(layer.cell) for layer in layers_of(learner)] == [SavedCell]


def test_python_s_class_and_instance_are_the_file_s_cell(folder: Path) -> None:
    options: dict[str, Any] = {"hidden": 8, "batch_size": 4, "bptt": 8, "steps": 6, "engine": "kernel"}
    unspool.train("book.txt", out="file", cell="mine.py:Minimal", **options)
    unspool.train("book.txt", out="class", cell=Minimal, **options)
    unspool.train("book.txt", out="instance", cell=Minimal(), **options)
    assert 'cell = "Minimal"' in Path("class/config.toml").read_text(encoding="utf-8")
    for name, value in weights("file").items():
        np.testing.assert_array_equal(weights("class")[name], value)
        np.testing.assert_array_equal(weights("instance")[name], value)


def test_another_cell_of_the_same_name_does_not_resume_a_run(folder: Path, capsys: Capture) -> None:
    options: dict[str, Any] = {"hidden": 8, "batch_size": 4, "bptt": 8, "steps": 2}
    unspool.train("book.txt", out="run", cell=Minimal, **options)

    class Other(Minimal):
        def step(self, x: Any, h: Any) -> Any:
            return tanh(self.linear("n", x, h))

    Other.__name__ = "Minimal"
    before = content(folder / "run")
    with pytest.raises(ArgumentError, match="`cell` is .* in the run and .* with other equations"):
        unspool.train("book.txt", out="run", resume=True, cell=Other, **{**options, "steps": 4})
    assert content(folder / "run") == before
    assert unspool.train("book.txt", out="run", resume=True, cell=Minimal, **{**options, "steps": 4}).finished.step == 4


@pytest.mark.parametrize("damage", ["missing", "{", '{"format": 1, "cells": {}}'])
def test_lost_equations_are_an_error_and_no_file_is_run(damage: str, folder: Path, capsys: Capture) -> None:
    call("train", "book.txt", "--cell", "mine.py:Minimal", *SMALL, "--steps", "2", "--out", "run", "--quiet")
    (folder / "mine.py").write_text("raise SystemExit('this file was run')\n", encoding="utf-8")
    kept = folder / "run" / "cell.json"
    kept.unlink() if damage == "missing" else kept.write_text(damage, encoding="utf-8")
    with pytest.raises(DataError, match="cell.json"):
        load_run("run")
    for command in (["evaluate", "run"], ["generate", "run"], ["train", "run", "--resume"], ["xray", "run"]):
        said = refused(capsys, *command)
        assert "cell.json" in said
        assert "was run" not in said


def test_no_config_runs_a_file(folder: Path, capsys: Capture) -> None:
    (folder / "mine.py").write_text("raise SystemExit('this file was run')\n", encoding="utf-8")
    (folder / "mine.toml").write_text('[model]\ncell = "mine.py:Minimal"\n', encoding="utf-8")
    said = refused(capsys, "train", "book.txt", "--config", "mine.toml")
    assert "names the file mine.py:Minimal, and no config runs a file" in said
    assert "was run" not in said


# ── cells and sizes per layer ──


def test_options_of_a_built_in_cell(folder: Path) -> None:
    call("train", "book.txt", "--cell", "deep-transition(depth=3)", *SMALL, "--steps", "2", "--out", "run", "--quiet")
    config, _, learner = load_run("run")
    assert config.model.cell == "deep-transition(depth=3)"
    assert not Path("run/cell.json").exists()
    assert [layer.cell.depth for layer in layers_of(learner)] == [3]


def test_a_cell_and_a_size_per_layer(folder: Path) -> None:
    words = ["--cell", "lstm", "--cell", "mine.py:Minimal", "--hidden", "12", "--hidden", "6"]
    assert call("train", "book.txt", *words, "--batch-size", "4", "--steps", "3", "--out", "run", "--quiet") == 0
    config, task, learner = load_run("run")
    assert (config.model.layers, config.model.hidden) == (2, (12, 6))
    lower, upper = layers_of(learner)
    assert (lower.hidden_size, upper.hidden_size) == (12, 6)
    assert (type(lower.cell).__name__, upper.cell.title) == ("LSTM", "Minimal")
    assert task.evaluate_files(learner, ["book.txt"])["loss"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cell", "lstm", "--cell", "gru", "--layers", "3"], "--cell (=['lstm', 'gru']) is not one per layer"),
        (["--hidden", "4", "--hidden", "5", "--residual"], "--residual (=True) adds a layer's input"),
        (["--layers", "2", "--skip", "--residual"], "--residual (=True) adds a layer's input to its output, and with"),
        (["--cell", "lstm", "--cell", "elman", "--forget-bias", "1"], "--forget-bias (=1.0) is for gates that keep"),
        (["--cell", "lstm(depth=3)"], "has an unknown option 'depth'"),
        (["--cell", "none.py:Minimal"], "names a file that does not exist"),
        (["--cell", "mine.py:Maximal"], "Maximal"),
        (["--cell", "mine.py:Minimal", "--engine", "torch"], "--engine (='torch') has no cell 'mine.py:Minimal'"),
    ],
)
def test_what_does_not_fit_is_refused(words: list[str], said: str, folder: Path, capsys: Capture) -> None:
    assert said in refused(capsys, "train", "book.txt", *words)
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("words", [["--hidden", "12", "--hidden", "6"], ["--cell", "lstm", "--cell", "gru"]])
def test_lists_say_how_many_layers_there_are(words: list[str], folder: Path) -> None:
    """Also against the defaults of a task and of a recipe, and for settings that need several layers."""
    assert plan("book.txt", **given(words), skip=True).model.layers == 2
    assert plan("book.txt", **given(words), recipe="char-medium").model.layers == 2
    assert plan("data.csv", task="regress", **given([*words, words[0], words[1]])).model.layers == 3


def given(words: list[str]) -> dict[str, Any]:
    """The setting that repeated options give."""
    return {words[0].removeprefix("--"): [int(one) if one.isdigit() else one for one in words[1::2]]}


def test_a_projected_lstm_in_a_tagger(folder: Path) -> None:
    """Its output is narrower than its layers, also in the layer that reads characters."""
    (folder / "data.conll").write_text("a O\nfox B-animal\n\n" * 20, encoding="utf-8")
    words = ["--cell", "lstm(projection=3)", "--hidden", "8", "--steps", "2", "--out", "run", "--quiet"]
    assert call("train", "data.conll", *words) == 0
    _, task, learner = load_run("run")
    assert task.evaluate_files(learner, ["data.conll"])["loss"] > 0


def test_a_delayed_tagger_reads_ahead(folder: Path) -> None:
    """A word whose tag depends on the next one can be tagged in one direction only with a delay."""
    pairs = ["x B-one\na O\n\n", "x B-two\nb O\n\n"] * 40
    (folder / "data.conll").write_text("".join(pairs), encoding="utf-8")
    scores = {}
    for delay in (0, 1):
        out = f"run{delay}"
        words = ["--no-bidirectional", "--hidden", "16", "--epochs", "12", "--lr", "0.02", "--dropout", "0", "--no-crf"]
        more = ["--time-delay", str(delay)] if delay else []
        assert call("train", "data.conll", *words, *more, "--out", out, "--quiet") == 0
        _, task, learner = load_run(out)
        scores[delay] = task.evaluate_files(learner, ["data.conll"])["accuracy"]
    assert scores[0] <= 0.75 + 1e-9  # of two words one is a guess between two tags
    assert scores[1] == 1.0


def test_skips_in_depth_are_the_stack_s(folder: Path) -> None:
    call("train", "book.txt", "--layers", "3", "--skip", *SMALL, "--steps", "2", "--out", "run", "--quiet")
    learner = load_run("run").learner
    sizes = [layer.input_size for layer in layers_of(learner)]
    assert sizes[1:] == [sizes[0] + 8, 8 + 8]  # each reads the two below it
    torch.manual_seed(0)
    x = torch.randn(5, 2, sizes[0])
    plain = unspool.nn.Stack("lstm", sizes[0], 8, 3, skip=True)
    backbone: Any = learner.backbone
    plain.load_state_dict(backbone.state_dict())
    torch.testing.assert_close(backbone(x)[0], plain(x)[0])
