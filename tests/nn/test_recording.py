"""What is recorded of a model fits sequences of any length and batches of any size, or is refused."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from tests.engine.agreement import needs_kernels
from tests.nn.torch_twins import KINDS, each_kind, twins
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import unspool
from unspool.errors import ArgumentError

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:You are using the legacy:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The feature will be removed:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "all": {"num_layers": 2, "bidirectional": True, "batch_first": True, "bias": False},
    "dropout": {"num_layers": 2, "dropout": 0.5},
}
each_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
#: (steps, batch) of the example, and of what the recorded model is given afterwards.
SHAPES = (5, 2), (9, 4), (1, 1), (3, 2)


class Model(nn.Module):
    """A layer between others."""

    def __init__(self, layer: Any, **call: Any) -> None:
        super().__init__()
        self.before, self.layer, self.call = nn.Linear(3, 3), layer, call

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(torch.tanh(self.before(x)), **self.call)[0]
        return output.square()


class Scriptable(nn.Module):
    """The same in what TorchScript understands."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.before, self.layer = nn.Linear(3, 3), layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.tanh(self.before(x)))[0].square()  # type: ignore[no-any-return]


def examples() -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(*shape, 3) for shape in SHAPES]


def models(kind: str, options: dict[str, Any], make: type[Any] = Model) -> list[Any]:
    """One with torch.nn's layer and one with ours, in evaluation."""
    found = []
    for layer in twins(kind, 3, 5, **options):
        torch.manual_seed(2)
        found.append(make(layer).eval())
    return found


def assert_same_everywhere(recorded: Callable[[Tensor], Tensor], expected: nn.Module) -> None:
    for x in examples():
        torch.testing.assert_close(recorded(x), expected(x), rtol=0, atol=1e-6)


@each_kind
@each_option
def test_traced(kind: str, options: dict[str, Any]) -> None:
    theirs, ours = models(kind, options)
    for x in examples():  # so that tensors are known to the quick kernel
        with torch.no_grad():
            ours(x)
        ours(x)
    recorded = torch.jit.trace(ours, examples()[0])
    assert_same_everywhere(recorded, theirs)
    file = io.BytesIO()
    torch.jit.save(recorded, file)
    file.seek(0)
    assert_same_everywhere(torch.jit.load(file), theirs)


@each_kind
def test_traced_with_packed_sequences(kind: str) -> None:
    class Packed(nn.Module):
        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
            packed = self.layer(pack_padded_sequence(x, lengths, enforce_sorted=False))[0]
            return pad_packed_sequence(packed)[0]

    theirs, ours = (Packed(layer) for layer in twins(kind, 3, 5))
    recorded = torch.jit.trace(ours, (torch.randn(5, 2, 3), torch.tensor([3, 5])))
    x, lengths = torch.randn(9, 4, 3), torch.tensor([2, 9, 1, 4])
    torch.testing.assert_close(recorded(x, lengths), theirs(x, lengths), rtol=0, atol=1e-6)


@each_kind
@each_option
def test_scripted(kind: str, options: dict[str, Any]) -> None:
    theirs, ours = models(kind, options, Scriptable)
    recorded = torch.jit.script(ours)
    assert_same_everywhere(recorded, theirs)
    assert recorded.layer.weight_hh_l0 is not None
    assert type(ours.layer) is KINDS[kind][0]  # torch.jit.script puts what it reads into the model itself
    assert unspool.accelerate(ours) == ["layer"]
    assert_same_everywhere(ours, theirs)


@each_kind
@each_option
def test_one_node_of_fx(kind: str, options: dict[str, Any]) -> None:
    theirs, ours = models(kind, options)
    recorded = [torch.fx.symbolic_trace(model) for model in (theirs, ours)]
    assert recorded[1].code == recorded[0].code
    assert_same_everywhere(recorded[1], theirs)


def test_one_node_of_fx_with_arguments_of_ours() -> None:
    x = torch.randn(6, 2, 3)
    for layer in (
        unspool.nn.GRU(3, 5, reset="before"),
        unspool.nn.Recurrent("gru", 3, 5),
        unspool.nn.Stack("gru", 3, 5),
    ):
        model = Model(layer, lengths=torch.tensor([2, 6]))
        torch.testing.assert_close(torch.fx.symbolic_trace(model)(x), model(x), rtol=0, atol=0)


class FromState(nn.Module):
    """A layer on a constant input, whose initial state is what the model is given."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("x", torch.ones(6, 2, 3))

    def forward(self, h: Tensor) -> Tensor:
        hx = (h, torch.tanh(h)) if self.layer.mode == "LSTM" else h
        return self.layer(self.x, hx)[0]  # type: ignore[no-any-return]


@each_kind
def test_fx_where_only_the_state_is_a_symbol(kind: str) -> None:
    theirs, ours = (FromState(layer) for layer in twins(kind, 3, 5))
    recorded = [torch.fx.symbolic_trace(model) for model in (theirs, ours)]
    assert recorded[1].code == recorded[0].code
    h = torch.randn(1, 2, 5)
    torch.testing.assert_close(recorded[1](h), theirs(h), rtol=0, atol=1e-6)


def test_fx_where_only_the_lengths_or_a_state_of_our_layers_are_symbols() -> None:
    class Symbols(nn.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.layer = layer
            self.register_buffer("x", torch.ones(6, 2, 3))

        def forward(self, lengths: Tensor, h: Tensor) -> Tensor:
            found: Tensor = self.layer(self.x, lengths=lengths)[0] + self.layer(self.x, h)[0]
            return found

    lengths = torch.tensor([2, 6])
    for layer, h in (
        (unspool.nn.GRU(3, 5), torch.randn(1, 2, 5)),
        (unspool.nn.Recurrent("gru", 3, 5), torch.randn(2, 5)),
    ):
        model = Symbols(layer)
        torch.testing.assert_close(torch.fx.symbolic_trace(model)(lengths, h), model(lengths, h), rtol=0, atol=0)


def test_fx_does_not_look_inside() -> None:
    with pytest.raises(ArgumentError, match="torch.fx cannot look inside LSTM.*Trace a model"):
        torch.fx.symbolic_trace(unspool.nn.LSTM(3, 5))
    for layer in (nn.LSTM(3, 5), unspool.nn.Recurrent("lstm", 3, 5)):
        with pytest.raises(torch.fx.proxy.TraceError):
            torch.fx.symbolic_trace(layer)


@needs_kernels
@each_kind
def test_exported_for_any_length(kind: str) -> None:
    """Ours keeps its operator, which takes any number of steps and rows."""
    _, ours = models(kind, {"num_layers": 2})
    sizes = {0: torch.export.Dim("steps", min=1, max=99), 1: torch.export.Dim("rows", min=1, max=99)}
    program = torch.export.export(ours, (examples()[0],), dynamic_shapes=(sizes,))
    assert "unspool.recurrence" in program.graph_module.code
    assert_same_everywhere(program.module(), ours)


REFUSED: dict[str, Callable[[], nn.Module]] = {
    "Recurrent": lambda: Model(unspool.nn.Recurrent("lstm", 3, 5)),
    "Stack": lambda: Model(unspool.nn.Stack(["gru", "leaky"], 3, 5)),
    "Bidirectional": lambda: Model(unspool.nn.Bidirectional("gru", 3, 5)),
    "GRU, reset before": lambda: Model(unspool.nn.GRU(3, 5, reset="before")),
    "GRU with lengths": lambda: Model(unspool.nn.GRU(3, 5), lengths=[5, 2]),
    "GRU with a trace": lambda: Model(unspool.nn.GRU(3, 5), trace=True),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("warm", [False, True], ids=["new", "called before"])
def test_what_cannot_be_traced_whole_is_refused(name: str, warm: bool, tmp_path: Path) -> None:
    model, x = REFUSED[name](), examples()[0]
    if warm:
        model(x)
        with torch.no_grad():
            model(x)
    with pytest.raises(ArgumentError, match="cannot be traced.*Use torch.export"):
        torch.jit.trace(model, x)
    with pytest.raises(ArgumentError, match="cannot be traced.*Use torch.export"), torch.no_grad():
        torch.onnx.export(model, (x,), tmp_path / "model.onnx", dynamo=False)
    assert not list(tmp_path.iterdir())


ALONE: dict[str, Callable[[], nn.Module]] = {
    "Recurrent": lambda: unspool.nn.Recurrent("gru", 3, 5),
    "Stack": lambda: unspool.nn.Stack("gru", 3, 5, 2),
    "TimeDelay": lambda: unspool.nn.TimeDelay(unspool.nn.Recurrent("gru", 3, 5), 2),
    "Equilibrium": lambda: unspool.nn.Equilibrium("elman", 3, 5),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_layer_alone_is_refused_as_inside_a_model(name: str, tmp_path: Path) -> None:
    layer, x = ALONE[name](), examples()[0]
    with pytest.raises(ArgumentError, match="cannot be traced by torch.jit or exported to ONNX"):
        torch.jit.trace(layer, (x,))
    with pytest.raises(ArgumentError, match="cannot be traced by torch.jit or exported to ONNX"), torch.no_grad():
        torch.onnx.export(layer, (x,), tmp_path / "model.onnx", dynamo=False)
    assert not list(tmp_path.iterdir())


class Calls(nn.Module):
    """A method of a module as a model's forward."""

    def __init__(self, module: nn.Module, name: str) -> None:
        super().__init__()
        self.module, self.name = module, name

    def forward(self, *given: Tensor) -> Any:
        return getattr(self.module, self.name)(*given)


#: Loops of Python's that are not layers' loops: what is traced, and with what.
LOOPS: dict[str, Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]] = {
    "log_partition": lambda: (Calls(unspool.nn.LinearChainCRF(4), "log_partition"), (torch.randn(5, 2, 4),)),
    "log_likelihood": lambda: (
        Calls(unspool.nn.LinearChainCRF(4), "log_likelihood"),
        (torch.randn(5, 2, 4), torch.zeros(5, 2, dtype=torch.long)),
    ),
    "marginals": lambda: (Calls(unspool.nn.LinearChainCRF(4), "marginals"), (torch.randn(5, 2, 4),)),
    "decode": lambda: (Calls(unspool.nn.LinearChainCRF(4), "decode"), (torch.randn(5, 2, 4),)),
    "equilibrium": lambda: (unspool.nn.Equilibrium("gru", 3, 4), (torch.randn(2, 3),)),
    "greedy": lambda: (
        Calls(unspool.nn.Seq2Seq(7, 6, 3, 4, 1, cell="gru"), "greedy"),
        (torch.full((2, 5), 4),),
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_other_loops_are_refused(name: str, tmp_path: Path) -> None:
    model, given = LOOPS[name]()
    with pytest.raises(ArgumentError, match="cannot be traced"):
        torch.jit.trace(model, given)
    with pytest.raises(ArgumentError, match="cannot be traced"), torch.no_grad():
        torch.onnx.export(model, given, tmp_path / "model.onnx", dynamo=False)


@pytest.mark.parametrize("name", [name for name in LOOPS if name != "greedy"])  # torch refuses that in its own words
def test_other_loops_are_refused_by_the_newer_exporter(name: str) -> None:
    model, given = LOOPS[name]()
    exporting = patch.object(torch.onnx, "is_in_onnx_export", return_value=True)
    with exporting, pytest.raises(ArgumentError, match="exported to ONNX"):
        torch.export.export(model, given)


@pytest.mark.parametrize("pooling", [unspool.nn.MeanPooling, unspool.nn.MaxPooling, unspool.nn.AttentionPooling])
def test_poolings_are_traced_for_any_length(pooling: type[Any]) -> None:
    model = pooling(3)
    recorded = torch.jit.trace(model, examples()[0])
    assert_same_everywhere(recorded, model)


def test_what_is_unfolded_is_traced_for_its_steps_only() -> None:
    layer = unspool.nn.Recurrent("gru", 3, 5)
    recorded = torch.jit.trace(unspool.nn.Unfolded(layer, 5), torch.randn(5, 2, 3))
    x = torch.randn(5, 2, 3)
    torch.testing.assert_close(recorded(x)[0], layer(x)[0], rtol=0, atol=1e-6)
    with pytest.raises(RuntimeError, match="Expected 5 elements"):
        recorded(torch.randn(9, 2, 3))


@needs_kernels  # without them, torch.export unrolls the steps of the example
@pytest.mark.parametrize("name", list(REFUSED)[:4])
@pytest.mark.parametrize("strict", [False, True])
def test_what_onnx_has_no_operator_for_is_refused_by_its_newer_exporter_too(name: str, strict: bool) -> None:
    """It exports in both ways, one after the other; dynamo, which traces strictly, may refuse in its own words."""
    exporting = patch("torch.onnx._internal.exporter._flags._is_onnx_exporting", True)
    with exporting, pytest.raises(Exception) as refused:
        torch.export.export(REFUSED[name](), (examples()[0],), strict=strict)
    assert "exported to ONNX" in str(refused.value) or (strict and "skipped" in str(refused.value))


@pytest.mark.parametrize("name", list(REFUSED)[:4])
def test_what_cannot_be_scripted_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match="torch.jit.script cannot read.*Use torch.export"):
        torch.jit.script(copy.deepcopy(REFUSED[name]()))
