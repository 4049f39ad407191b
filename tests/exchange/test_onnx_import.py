"""Recurrent nodes of ONNX into unspool.nn: ONNX Runtime on the same file is the judge."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import unspool
from unspool.errors import DataError
from unspool.exchange import from_onnx
from unspool.exchange.compare import compare_with_source

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read are weights; that kernels compute as the loop does is tested elsewhere."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


def write_node(path: Path, kind: str, *, direction: str = "forward", bias: bool = True, **attributes: Any) -> None:
    """A model of one recurrent node with random weights."""
    generator = np.random.default_rng(0)
    count, rows = (2 if direction == "bidirectional" else 1), 4 * GATES[kind]
    shapes = {"W": (count, rows, 3), "R": (count, rows, 4), "B": (count, 2 * rows)}
    tensors = [
        numpy_helper.from_array(0.3 * generator.normal(size=shape).astype(np.float32), name)
        for name, shape in shapes.items()
        if bias or name != "B"
    ]
    names = ["X", *(tensor.name for tensor in tensors)]
    node = helper.make_node(kind, names, ["Y"], name="n", direction=direction, hidden_size=4, **attributes)
    x = helper.make_tensor_value_info("X", TensorProto.FLOAT, ("time", "batch", 3))
    y = helper.make_tensor_value_info("Y", TensorProto.FLOAT, ("time", count, "batch", 4))
    graph = helper.make_graph([node], "g", [x], [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


KINDS: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {}),
    ("GRU", {"linear_before_reset": 0}),
    ("GRU", {"linear_before_reset": 1}),
    ("RNN", {}),
    ("RNN", {"activations": ["Relu"]}),
]


@pytest.mark.parametrize("place", range(len(KINDS)))
def test_a_node_becomes_a_layer_with_the_same_output(place: int, tmp_path: Path) -> None:
    kind, attributes = KINDS[place]
    for direction, bias in product(("forward", "reverse", "bidirectional"), (True, False)):
        path = tmp_path / f"{direction}-{bias}.onnx"
        count = 2 if direction == "bidirectional" else 1
        more = {"activations": attributes["activations"] * count} if "activations" in attributes else attributes
        write_node(path, kind, direction=direction, bias=bias, **more)
        x = np.random.default_rng(1).normal(size=(6, 2, 3)).astype(np.float32)
        session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
        theirs = session.run(None, {"X": x})[0].transpose(2, 0, 1, 3).reshape(2, 6, -1)
        with torch.no_grad():
            ours = from_onnx(path)(torch.from_numpy(x.swapaxes(0, 1).copy()))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("cell", ["lstm", "gru", "gru-reset-after", "elman"])
def test_what_is_exported_can_be_imported(cell: str, tmp_path: Path) -> None:
    layer = unspool.nn.Bidirectional(cell, 3, 4, batch_first=True)
    unspool.export.onnx(layer, tmp_path / "layer.onnx")
    again = from_onnx(tmp_path / "layer.onnx")
    x = torch.randn(2, 5, 3)
    with torch.no_grad():
        torch.testing.assert_close(again(x), layer(x)[0], rtol=0, atol=1e-6)
    assert "other nodes were left out" in again.report()


def test_what_has_no_counterpart_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "node.onnx"
    for attributes in ({"clip": 1.0}, {"activations": ["Relu", "Tanh", "Tanh"]}, {"input_forget": 1}):
        write_node(path, "LSTM", **attributes)
        with pytest.raises(DataError, match="node 'n'"):
            from_onnx(path)
    unspool.export.onnx(unspool.nn.Recurrent("jordan", 3, 4), path, overwrite=True)
    with pytest.raises(DataError, match="no RNN, GRU or LSTM"):
        from_onnx(path)


def test_bad_files_are_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "node.onnx"
    write_node(path, "GRU")
    whole = path.read_bytes()
    for content in (b"no", whole[: len(whole) // 2], bytes(100)):
        path.write_bytes(content)
        with pytest.raises(DataError):
            from_onnx(path)
    model = onnx.load_from_string(whole)
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL
    model.graph.initializer[0].ClearField("raw_data")
    model.graph.initializer[0].external_data.add(key="location", value="/etc/passwd")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(DataError):
        from_onnx(path)
    model = onnx.load_from_string(whole)
    model.graph.initializer[1].dims[2] = 3
    path.write_bytes(model.SerializeToString())
    with pytest.raises(DataError):
        from_onnx(path)


def test_mutated_files_give_layers_or_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "node.onnx"
    write_node(path, "GRU")
    whole, generator = path.read_bytes(), np.random.default_rng(0)
    for _ in range(60):
        bad = bytearray(whole)
        for place in generator.integers(0, len(bad), 3):
            bad[place] = generator.integers(256)
        path.write_bytes(bytes(bad))
        try:
            assert from_onnx(path).recurrent
        except DataError:
            continue


INITIAL = {"LSTM": ("initial_h", "initial_c"), "GRU": ("initial_h",), "RNN": ("initial_h",)}


def with_starts(path: Path, kind: str, rows: int, form: str, direction: str = "forward") -> Any:
    """A model of one node whose initial states are data, inputs, computed, or zeros that are computed."""
    write_node(path, kind, direction=direction)
    model = onnx.load(path)
    graph, generator, count = model.graph, np.random.default_rng(3), 2 if direction == "bidirectional" else 1
    graph.node[0].input.extend(["", *INITIAL[kind]])
    for name in INITIAL[kind]:
        one = generator.normal(size=(count, 1, 4)).astype(np.float32)
        value = np.repeat(one, rows, 1)
        if form == "input":
            graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, (count, "batch", 4)))
        elif form == "data":
            graph.initializer.append(numpy_helper.from_array(value, name))
        elif form == "different":
            graph.initializer.append(numpy_helper.from_array(value + np.arange(rows, dtype=np.float32)[:, None], name))
        else:
            start = value if form == "computed" else np.zeros_like(value)
            graph.initializer.append(numpy_helper.from_array(start, f"{name}_0"))
            operator = "Tanh" if form == "computed" else "Identity"
            graph.node.insert(0, helper.make_node(operator, [f"{name}_0"], [name]))
    onnx.save(model, path)
    return onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", INITIAL)
def test_initial_states_that_are_data_are_taken_over(kind: str, direction: str, tmp_path: Path) -> None:
    path = tmp_path / "node.onnx"
    x = np.random.default_rng(1).normal(size=(6, 2, 3)).astype(np.float32)
    for form in ("data", "zero"):
        theirs = with_starts(path, kind, 2, form, direction).run(None, {"X": x})[0]
        theirs = theirs.transpose(2, 0, 1, 3).reshape(2, 6, -1)
        model = from_onnx(path)
        with torch.no_grad():
            ours = model(torch.from_numpy(x.swapaxes(0, 1).copy()))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)
        difference, _ = compare_with_source(model, path)
        assert difference is not None
        assert difference < 1e-6


def test_initial_states_are_never_dropped_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "node.onnx"
    with_starts(path, "LSTM", 2, "input")
    assert "n starts from the input 'initial_c': give it as the state in a call" in from_onnx(path).report()
    for form, said in (("computed", "node 'n' computes its initial state"), ("different", "from another state")):
        with_starts(path, "GRU", 2, form)
        with pytest.raises(DataError, match=said):
            from_onnx(path)


def test_lengths_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "node.onnx"
    write_node(path, "GRU")
    model = onnx.load(path)
    model.graph.node[0].input.append("lengths")
    model.graph.input.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, ("batch",)))
    onnx.save(model, path)
    assert "n reads lengths: give `lengths` in a call" in from_onnx(path).report()


def test_nodes_that_name_the_same_weights_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "node.onnx"
    write_node(path, "GRU")
    model = onnx.load(path)
    node = model.graph.node[0]
    for number in range(20_000):
        other = helper.make_node("GRU", node.input, [f"Y{number}"], hidden_size=4)
        model.graph.node.append(other)
    onnx.save(model, path)
    assert path.stat().st_size < 2e6
    with pytest.raises(DataError, match="bytes are named as"):
        from_onnx(path)
