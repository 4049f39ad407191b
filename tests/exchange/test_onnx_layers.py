"""Layers in ONNX, from their equations: ONNX Runtime against torch in float64, at several lengths and batch sizes."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.exchange.onnx_configurations import Configuration, all_configurations, differences, make_layer
from tests.variants import PUBLISHED, cell_of

import unspool
from unspool.cells import Cell, Symbol, sigmoid, tanh
from unspool.errors import ArgumentError, StorageError
from unspool.exchange.onnx.check import difference
from unspool.nn import GRU, Recurrent

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
TOLERANCE = 1e-5
ALL = all_configurations()
#: A few of every kind: the same ones at every run, and each published cell once.
SOME = [one for one in ALL if one.name.split(":")[0] not in PUBLISHED][::9]
SOME += [one for one in ALL if one.name in [f"{name}: plain" for name in PUBLISHED]]


@pytest.fixture(autouse=True)
def _no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is compiled: the equations themselves are what ONNX is compared with."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


def test_there_are_enough_configurations() -> None:
    assert len({configuration.name for configuration in ALL}) == len(ALL) >= 300
    assert len(SOME) >= 40


@pytest.mark.parametrize("configuration", SOME, ids=[one.name for one in SOME])
def test_some_layers_run_in_onnx(configuration: Configuration, tmp_path: Path) -> None:
    worst, operators = differences(configuration, tmp_path / "layer.onnx")
    assert worst <= TOLERANCE
    assert operators


@pytest.mark.long
@pytest.mark.parametrize("configuration", ALL, ids=[one.name for one in ALL])
def test_all_layers_run_in_onnx(configuration: Configuration, tmp_path: Path) -> None:
    worst, _ = differences(configuration, tmp_path / "layer.onnx")
    assert worst <= TOLERANCE


@pytest.mark.parametrize(
    ("cell", "operator"),
    [
        *(("lstm", "LSTM"), ("gru", "GRU"), ("gru-reset-after", "GRU"), ("elman", "RNN"), ("elman-relu", "RNN")),
        *(("lstm-open", "Scan"), ("jordan", "Scan"), ("linear", "Scan")),
    ],
)
def test_a_cell_is_the_operator_that_its_equations_are(cell: str, operator: str, tmp_path: Path) -> None:
    for place, bias in enumerate((True, False)):
        found = unspool.export.onnx(Recurrent(cell, 3, 4, bias=bias), tmp_path / f"{place}.onnx")
        assert found.operators == (operator,)


def test_a_users_lstm_is_found_whatever_its_names_and_the_order_of_its_terms(tmp_path: Path) -> None:
    def step(self: Cell, x: Symbol, shown: Symbol, kept: Symbol) -> tuple[Symbol, Symbol]:
        out = sigmoid(self.linear("third", shown, x))
        new = tanh(self.linear("first", x, shown, bias=False))
        kept = new * sigmoid(self.linear("second", x, shown)) + kept * sigmoid(self.linear("fourth", x, shown))
        return tanh(kept) * out, kept

    configuration = Configuration("", lambda: Recurrent(cell_of(step), 3, 4), True, True)
    worst, operators = differences(configuration, tmp_path / "mine.onnx")
    assert operators == ("LSTM",)
    assert worst <= TOLERANCE


def test_a_gru_that_keeps_by_z_is_onnxs_gru(tmp_path: Path) -> None:
    def keep(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        z, r = sigmoid(self.linear("z", x, h)), sigmoid(self.linear("r", x, h))
        return z * h + (1 - z) * tanh(self.linear("n", x, r * h))

    def admit(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        z, r = sigmoid(self.linear("z", x, h)), sigmoid(self.linear("r", x, h))
        return z * tanh(self.linear("n", x) + r * self.linear("u", h)) + (1 - z) * h

    for name, step in {"keep": keep, "admit": admit}.items():
        made = Configuration("", partial(Recurrent, cell_of(step), 3, 4), True, True)
        worst, operators = differences(made, tmp_path / f"{name}.onnx")
        assert operators == ("GRU",)
        assert worst <= TOLERANCE


def test_a_cell_that_is_nearly_a_gru_is_none(tmp_path: Path) -> None:
    def step(self: Cell, x: Symbol, h: Symbol) -> Symbol:
        z, r = sigmoid(self.linear("z", x, h)), sigmoid(self.linear("r", x, h))
        return (1 - r) * tanh(self.linear("n", x, r * h)) + z * h

    worst, operators = differences(
        Configuration("", lambda: Recurrent(cell_of(step), 3, 4), True, True), tmp_path / "nearly.onnx"
    )
    assert operators == ("Scan",)
    assert worst <= TOLERANCE


def test_states_that_depend_on_nothing_have_a_row_for_every_sequence(tmp_path: Path) -> None:
    def step(self: Cell, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        return tanh(self.linear("h", x, c)), self.vector("v", 0.5) + 1

    made = Configuration("", lambda: Recurrent(cell_of(step), 3, 4), False, True)
    assert differences(made, tmp_path / "constant.onnx")[0] <= TOLERANCE


def test_padding_that_is_nan_changes_nothing(tmp_path: Path) -> None:
    for name in ("gru", "lstm-open"):
        path = tmp_path / f"{name}.onnx"
        unspool.export.onnx(make_layer(partial(Recurrent, name, 3, 4)), path, states=False)
        session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
        x = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)
        clean = session.run(None, {"x": x, "lengths": np.array([2, 5])})
        x[2:, 0] = np.nan
        for one, other in zip(session.run(None, {"x": x, "lengths": np.array([2, 5])}), clean, strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "gru.onnx"
    layer = Recurrent("gru", 3, 4, learn_initial=True)
    found = unspool.export.onnx(layer, path)
    model = onnx.load(path)
    said = {entry.key: entry.value for entry in model.metadata_props}
    assert found.opset == model.opset_import[0].version == 17
    assert said["cell"] == "GRU"
    assert said["version"] == unspool.__version__
    assert len(said["initial_layer0_h"].split(",")) == 4
    assert "opset 17" in str(found)


def test_the_same_layer_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        unspool.export.onnx(make_layer(lambda: GRU(3, 4, 2)), tmp_path / name)
    one, other = (onnx.load(tmp_path / name) for name in ("a", "b"))
    one.graph.name = other.graph.name = ""
    assert one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)


def test_a_missing_onnxruntime_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    found = unspool.export.onnx(GRU(3, 4), tmp_path / "gru.onnx")
    assert found.difference is None
    assert "pip install" in str(found)


def test_bad_targets_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "gru.onnx"
    path.write_bytes(b"mine")
    with pytest.raises(ArgumentError, match="exists already"):
        unspool.export.onnx(GRU(3, 4), path)
    assert path.read_bytes() == b"mine"
    with pytest.raises(ArgumentError, match="is a folder"):
        unspool.export.onnx(GRU(3, 4), tmp_path, overwrite=True)
    with pytest.raises(StorageError, match="cannot be written"):
        unspool.export.onnx(GRU(3, 4), tmp_path / "no" / "gru.onnx")
    with pytest.raises(ArgumentError, match="module"):
        unspool.export.onnx(torch.nn.Linear(3, 4), tmp_path / "linear.onnx")
    assert [one.name for one in tmp_path.iterdir()] == ["gru.onnx"]
    unspool.export.onnx(GRU(3, 4), path, overwrite=True)
    assert path.read_bytes() != b"mine"


def test_emitting_needs_no_torch() -> None:
    code = "import sys, unspool.exchange.onnx.write; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nan_agrees_with_nothing() -> None:
    """Two models that both diverge are not equal: nothing was checked."""
    numbers = np.array([1.0, np.nan, np.inf])
    assert difference(numbers, numbers) == float("inf")
    assert difference(numbers[:1], numbers[:1]) == 0.0
    assert difference(numbers[2:], numbers[2:]) == 0.0
    assert difference(numbers[2:], -numbers[2:]) == float("inf")
