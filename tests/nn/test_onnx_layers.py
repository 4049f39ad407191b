"""Drop-ins in ONNX, by either exporter, at lengths and batch sizes other than the example's: ONNX Runtime judges."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from tests.nn.torch_twins import each_kind, flat, states, twins
from torch import Tensor, nn

import unspool
from unspool.errors import ArgumentError
from unspool.nn import GRU, LSTM

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch.onnx.*"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "all": {"num_layers": 2, "bidirectional": True, "batch_first": True},
    "no bias": {"bias": False, "num_layers": 2, "dropout": 0.5},
}
each_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
EXAMPLE, OTHERS = (5, 2), ((5, 2), (9, 4), (1, 1))


class Model(nn.Module):
    """A layer whose results are a flat tuple; it may start from a given state."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, *start: Tensor) -> tuple[Tensor, ...]:
        hx = None if not start else start if len(start) > 1 else start[0]
        return tuple(flat(self.layer(x, hx)))


def given(layer: Any, shape: tuple[int, int], start: bool) -> list[Tensor]:
    """Input, and initial states if wanted, of so many steps and rows."""
    torch.manual_seed(sum(shape))
    steps, rows = shape
    x = torch.randn(rows, steps, 3) if layer.batch_first else torch.randn(steps, rows, 3)
    return [x, *(part.detach() for part in flat(states(layer, rows)))] if start else [x]


def assert_runs_anywhere(
    run: Callable[[list[Tensor]], list[Any]], theirs: nn.Module, start: bool, atol: float = 1e-6
) -> None:
    for shape in OTHERS:
        tensors = given(theirs.layer, shape, start)
        with torch.no_grad():
            expected = theirs(*tensors)
        for mine, other in zip(run(tensors), expected, strict=True):
            np.testing.assert_allclose(mine, other.numpy(), rtol=0, atol=atol)


def session(model: bytes) -> Callable[[list[Tensor]], list[Any]]:
    made = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [part.name for part in made.get_inputs()]
    return lambda tensors: made.run(None, {n: t.detach().numpy() for n, t in zip(names, tensors, strict=True)})


def dynamic(layer: Any, count: int) -> list[dict[int, str]]:
    """The axes of x and the states that are not fixed."""
    return [{0: "rows", 1: "steps"} if layer.batch_first else {0: "steps", 1: "rows"}, *[{1: "rows"}] * count]


@each_kind
@each_option
@pytest.mark.parametrize("start", [False, True], ids=["from zeros", "from a state"])
def test_by_the_older_exporter(kind: str, options: dict[str, Any], start: bool, tmp_path: Path) -> None:
    theirs, ours = (Model(layer).eval() for layer in twins(kind, 3, 5, **options))
    tensors, file = given(ours.layer, EXAMPLE, start), tmp_path / "model.onnx"
    results = ["output", "h", "c"][: 3 if kind == "LSTM" else 2]
    inputs = ["x", "h_0", "c_0"][: len(tensors)]
    axes = dict(zip((*inputs, *results), dynamic(ours.layer, len(tensors) - 1) + dynamic(ours.layer, 2), strict=False))
    names: Any = {"input_names": inputs, "output_names": results, "dynamic_axes": axes}
    with torch.no_grad():
        torch.onnx.export(ours, tuple(tensors), file, dynamo=False, **names)
    assert_runs_anywhere(session(file.read_bytes()), theirs, start)


@each_kind
@pytest.mark.parametrize("start", [False, True], ids=["from zeros", "from a state"])
@pytest.mark.parametrize("accelerated", [False, True])
def test_a_layer_alone_by_the_older_exporter(kind: str, start: bool, accelerated: bool, tmp_path: Path) -> None:
    """The exporter gives the layer's own arguments by their places, and those that were left out too."""
    theirs, ours = (layer.eval() for layer in twins(kind, 3, 5))
    if accelerated:
        ours = copy.deepcopy(theirs)
        unspool.accelerate(nn.Sequential(ours))
    x, *states = given(ours, EXAMPLE, start)
    hx = (tuple(states) if kind == "LSTM" else states[0],) if start else ()
    with torch.no_grad():
        torch.onnx.export(ours, (x, *hx), tmp_path / "model.onnx", dynamo=False)
        output, final = theirs(x, *hx)
    found = session((tmp_path / "model.onnx").read_bytes())([x, *states])
    for mine, other in zip(found, (output, *(final if kind == "LSTM" else (final,))), strict=True):
        np.testing.assert_allclose(mine, other.numpy(), rtol=0, atol=1e-6)


class OnONNXRuntime(torch.fx.Interpreter):
    """Runs an exported graph; ONNX's operators in it, for which torch has no numbers, run by ONNX Runtime."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is not torch.ops.onnx_symbolic._symbolic_multi_out.default:
            return super().call_function(target, args, kwargs)
        inputs, name, types = args
        listed = {"i": kwargs["attr_ints"], "s": kwargs["attr_strs"]}
        attributes: dict[str, Any] = {}
        for key, kind, (first, last) in zip(kwargs["attr_keys"], kwargs["attr_types"], kwargs["attr_pos"], strict=True):
            values = listed[kind[0]][first:last]
            attributes[key] = values if len(kind) > 1 else values[0]
        there = {f"i{place}": part for place, part in enumerate(inputs) if part is not None}
        info, float32 = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
        sides = [f"i{place}" if f"i{place}" in there else "" for place in range(len(inputs))]
        results = [f"o{place}" for place in range(len(types))]
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node(name, sides, results, **attributes)],
            "one",
            [info(side, float32, list(part.shape)) for side, part in there.items()],
            [info(side, float32, None) for side in results],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9)
        return [torch.tensor(part) for part in session(model.SerializeToString())(list(there.values()))]


def sizes(layer: Any, count: int) -> Any:
    """The sizes that torch.export is not to fix."""
    named = {name: torch.export.Dim(name, min=1, max=99) for name in ("steps", "rows")}
    shapes = [{axis: named[name] for axis, name in axes.items()} for axes in dynamic(layer, count)]
    return {"x": shapes[0], "start": tuple(shapes[1:])} if count else {"x": shapes[0]}


@each_kind
@each_option
@pytest.mark.parametrize("start", [False, True], ids=["from zeros", "from a state"])
def test_operators_for_the_newer_exporter(kind: str, options: dict[str, Any], start: bool) -> None:
    """What that exporter is given; it writes these operators down as they are."""
    theirs, ours = (Model(layer).eval() for layer in twins(kind, 3, 5, **options))
    tensors = given(ours.layer, EXAMPLE, start)
    with patch.object(torch.onnx, "is_in_onnx_export", return_value=True):
        program = torch.export.export(ours, tuple(tensors), dynamic_shapes=sizes(ours.layer, len(tensors) - 1))
    nodes = [node for node in program.graph.nodes if "onnx_symbolic" in str(node.target)]
    assert len(nodes) == ours.layer.num_layers
    graph = program.module()
    assert_runs_anywhere(lambda tensors: list(OnONNXRuntime(graph).run(*tensors)), theirs, start)


@each_kind
@pytest.mark.parametrize(
    "options",
    [pytest.param(given, id=name, marks=[pytest.mark.long] * (name != "all")) for name, given in OPTIONS.items()],
)
def test_by_the_newer_exporter(kind: str, options: dict[str, Any]) -> None:
    pytest.importorskip("onnxscript")
    theirs, ours = (Model(layer).eval() for layer in twins(kind, 3, 5, **options))
    shapes, (x,) = sizes(ours.layer, 0), given(ours.layer, EXAMPLE, False)
    file = torch.onnx.export(ours, (x,), dynamo=True, verbose=False, dynamic_shapes=shapes)
    assert file is not None
    assert_runs_anywhere(session(file.model_proto.SerializeToString()), theirs, False)


@each_kind
@pytest.mark.parametrize(
    ("dtype", "atol", "engine"),
    [(torch.float16, 2e-3, "on"), (torch.float32, 1e-6, "off")],
    ids=["half precision", "no kernels"],
)
def test_by_the_newer_exporter_where_torch_runs_the_layer(
    kind: str, dtype: torch.dtype, atol: float, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half precision and layers without a kernel run by torch.nn's forward, but are not unrolled either."""
    pytest.importorskip("onnxscript")
    monkeypatch.setenv("UNSPOOL_ENGINE", engine)
    theirs, ours = (Model(layer.to(dtype)).eval() for layer in twins(kind, 3, 5, num_layers=2, bidirectional=True))
    shapes, (x,) = sizes(ours.layer, 0), given(ours.layer, EXAMPLE, False)
    file = torch.onnx.export(ours, (x.to(dtype),), dynamo=True, verbose=False, dynamic_shapes=shapes)
    assert file is not None
    run = session(file.model_proto.SerializeToString())
    assert_runs_anywhere(lambda tensors: run([part.to(dtype) for part in tensors]), theirs.float(), False, atol)


@pytest.mark.parametrize(
    ("layer", "said"),
    [(LSTM(3, 5, proj_size=2), "proj_size.*is no part of ONNX"), (GRU(3, 5, reset="before"), "exported to ONNX")],
    ids=["projection", "reset before"],
)
def test_what_onnx_has_no_operator_for_is_refused(layer: nn.Module, said: str) -> None:
    with (
        patch.object(torch.onnx, "is_in_onnx_export", return_value=True),
        pytest.raises(ArgumentError, match=said),
    ):
        torch.export.export(Model(layer), (torch.randn(5, 2, 3),))
