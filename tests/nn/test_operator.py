"""The kernels as operators: their registration, and models with them under torch.compile and torch.export."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.agreement import Call, draw, needs_compiler, ragged
from torch import Tensor, nn
from torch.library import opcheck

import unspool
from unspool.cells import Cell, Symbol, document, find_cell, sigmoid, tanh
from unspool.errors import UnspoolError
from unspool.nn import Bidirectional, Recurrent, Stack, operator

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")]
close = partial(torch.testing.assert_close, rtol=1e-11, atol=1e-11)
FORWARD, BACKWARD = torch.ops.unspool.recurrence.default, torch.ops.unspool.recurrence_backward.default
assert operator.recurrence is not None  # importing it is what registers them


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are on, and torch's compiler remembers nothing."""
    monkeypatch.delenv("UNSPOOL_ENGINE", raising=False)
    torch._dynamo.reset()


class Own(Cell):
    """A user's cell: two states, a map of an intermediate value, a vector."""

    def step(self, x: Symbol, h: Symbol, c: Symbol) -> tuple[Symbol, Symbol]:
        f = sigmoid(self.linear("f", x, h) + self.vector("p", 0.5) * c)
        n = tanh(self.linear("n", x, f * h))
        c = f * c + (1 - f) * n
        return tanh(c), c


# The registration


def arguments(call: Call, keep: bool = True) -> tuple[Any, ...]:
    lengths = None if call.lengths is None else torch.tensor(call.lengths)
    cell, size = document.dump(call.layer.equations), call.layer.hidden_size
    return cell, size, call.x, list(call.states), list(call.layer.parameters()), lengths, call.layer.reverse, keep


def detached(values: tuple[Any, ...]) -> tuple[Any, ...]:
    def loose(value: Any) -> Any:
        if isinstance(value, list):
            return [loose(part) for part in value]
        return value.detach() if isinstance(value, Tensor) else value

    return tuple(loose(value) for value in values)


@pytest.mark.parametrize("lengths", [None, (1, 0, 4)], ids=["full", "ragged"])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_opcheck(name: str, lengths: tuple[int, ...] | None) -> None:
    call = draw(find_cell(name), 4, 3, 2, 3, lengths=lengths, reverse=lengths is not None)
    opcheck(FORWARD, arguments(call))
    opcheck(FORWARD, detached(arguments(call, keep=False)))
    cell, size, x, states, parameters, ends, reverse, _ = detached(arguments(call))
    output, *final, tape = FORWARD(*detached(arguments(call)))
    slopes = [torch.randn_like(value) for value in (output, *final)]
    opcheck(BACKWARD, (cell, size, x, states, parameters, ends, reverse, output, tape, slopes))


def test_opcheck_of_tensors_laid_out_otherwise() -> None:
    call = draw(find_cell("gru"), 4, 3, 2, 3)
    cell, size, x, states, parameters, *rest = arguments(call)

    def turned(tensor: Tensor) -> Tensor:
        axes = tuple(reversed(range(tensor.dim())))
        return tensor.detach().permute(axes).contiguous().permute(axes).requires_grad_()

    opcheck(FORWARD, (cell, size, turned(x), [turned(s) for s in states], [turned(p) for p in parameters], *rest))


def test_the_operator_is_the_layer() -> None:
    call = draw(find_cell("lstm"), 4, 3, 2, 3, lengths=(1, 0, 4))
    output, h, c, _ = FORWARD(*arguments(call))
    expected, final = call.layer(call.x, call.states, lengths=call.lengths)
    for mine, other in zip((output, h, c), (expected, *final), strict=True):
        assert torch.equal(mine, other)
    into = [call.x, *call.states, *call.layer.parameters()]
    found = torch.autograd.grad(c.square().sum(), into)  # the output has no gradient of its own
    for mine, other in zip(found, torch.autograd.grad(final[1].square().sum(), into), strict=True):
        assert torch.equal(mine, other)


def test_a_second_derivative_of_the_operator_is_refused() -> None:
    call = draw(find_cell("gru"), 3, 2, 2, 3)
    output = FORWARD(*arguments(call))[0]
    (slope,) = torch.autograd.grad(output.square().sum(), call.x, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        torch.autograd.grad(slope.square().sum(), call.x)


def test_gradients_of_what_was_not_kept_are_refused() -> None:
    call = draw(find_cell("gru"), 3, 2, 2, 3)
    output = FORWARD(*arguments(call, keep=False))[0]
    with pytest.raises(UnspoolError, match="without gradients"):
        output.sum().backward()


WRONG: dict[str, Callable[[list[Any]], object]] = {
    "x of two dimensions": lambda a: a.__setitem__(2, a[2][0]),
    "x of another width": lambda a: a.__setitem__(2, a[2][..., :1]),
    "a state too many": lambda a: a[3].append(a[3][0]),
    "no states": lambda a: a[3].clear(),
    "states of another batch": lambda a: a[3].__setitem__(0, a[3][0][:1]),
    "states of another width": lambda a: a[3].__setitem__(0, a[3][0][:, :1]),
    "states of another dtype": lambda a: a[3].__setitem__(0, a[3][0].float()),
    "a parameter too few": lambda a: a[4].pop(),
    "parameters in another order": lambda a: a[4].reverse(),
    "parameters of another dtype": lambda a: a[4].__setitem__(0, a[4][0].float()),
    "lengths too large": lambda a: a.__setitem__(5, torch.tensor([4, 99])),
    "lengths below zero": lambda a: a.__setitem__(5, torch.tensor([4, -1])),
    "lengths too few": lambda a: a.__setitem__(5, torch.tensor([4])),
    "lengths that are no whole numbers": lambda a: a.__setitem__(5, torch.tensor([4.0, 1.0])),
    "another hidden size": lambda a: a.__setitem__(1, 700),
    "a cell that is none": lambda a: a.__setitem__(0, "{}"),
    "half precision": lambda a: a.__setitem__(2, a[2].half()),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused_and_not_read_past(name: str) -> None:
    """A program that was exported may have been changed since: the operator trusts nobody."""
    given = list(detached(arguments(draw(find_cell("gru"), 4, 2, 2, 3))))
    WRONG[name](given)
    with pytest.raises(UnspoolError):
        FORWARD(*given)


@pytest.mark.parametrize("what", ["tape", "output", "gradient"])
def test_wrong_arguments_of_the_way_back_are_refused(what: str) -> None:
    cell, size, x, states, parameters, lengths, reverse, _ = detached(arguments(draw(find_cell("gru"), 4, 2, 2, 3)))
    output, final, tape = FORWARD(cell, size, x, states, parameters, lengths, reverse, True)
    tape = tape[:-1] if what == "tape" else tape
    slopes = [output, final[:1] if what == "gradient" else final]
    output = output[1:] if what == "output" else output
    with pytest.raises(UnspoolError):
        BACKWARD(cell, size, x, states, parameters, lengths, reverse, output, tape, slopes)


# torch.compile


def models() -> dict[str, Callable[[], nn.Module]]:
    double: Any = {"dtype": torch.float64}
    return {
        "LSTM": lambda: unspool.nn.LSTM(3, 4, num_layers=2, bidirectional=True, **double),
        "GRU": lambda: unspool.nn.GRU(3, 4, **double),
        "own cell": lambda: Recurrent(Own, 3, 4, learn_initial=True, reverse=True, **double),
        "Stack": lambda: Stack("gru", 3, [4, 5], **double),
        "Bidirectional": lambda: Bidirectional("gru", 3, 4, **double),
    }


class Model(nn.Module):
    """A layer between others, as in a user's model."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.before, self.layer = nn.Linear(3, 3, dtype=torch.float64), layer

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        options: Any = {} if lengths is None else {"lengths": lengths}
        output: Tensor = self.layer(torch.tanh(self.before(x)), **options)[0]
        return output.square()


def model_of(name: str) -> Model:
    torch.manual_seed(0)
    return Model(models()[name]())


def sequences(steps: int = 5, rows: int = 2) -> Tensor:
    return torch.randn(steps, rows, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def equal_with_gradients(mine: Callable[..., Tensor], model: nn.Module, *given: Any) -> None:
    """Values and gradients of a compiled model against its own."""
    found = []
    for run in (mine, model):
        x = given[0].clone().requires_grad_()
        output = run(x, *given[1:])
        gradients = torch.autograd.grad(output.sum(), [x, *model.parameters()])
        found.append((output.detach(), *gradients))
    for a, b in zip(*found, strict=True):
        close(a, b)


each_model = pytest.mark.parametrize("name", list(models()))


@each_model
def test_compiled_as_one_graph(name: str) -> None:
    model = model_of(name)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    equal_with_gradients(compiled, model, sequences())
    with torch.no_grad():
        close(compiled(sequences()), model(sequences()))


@each_model
def test_compiled_with_lengths(name: str) -> None:
    model = model_of(name)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for lengths in ((3, 0), (5, 1)):
        equal_with_gradients(compiled, model, sequences(), torch.tensor(lengths))


def test_wrong_lengths_are_refused_under_the_compiler_too() -> None:
    compiled = torch.compile(model_of("GRU"), fullgraph=True, backend="aot_eager")
    with pytest.raises(UnspoolError, match="not all from 0 to 5"):
        compiled(sequences(), torch.tensor([3, 6]))


@each_model
def test_compiled_for_any_number_of_steps_and_rows(name: str) -> None:
    model = model_of(name)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for steps, rows in ((5, 2), (7, 3), (2, 9)):
        equal_with_gradients(compiled, model, sequences(steps, rows))


def test_a_compiled_model_learns() -> None:
    model = model_of("GRU")
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for run, own in ((compiled, model), (twin, twin)):
        optimiser = torch.optim.SGD(own.parameters(), lr=0.1)
        for _ in range(5):
            optimiser.zero_grad()
            run(sequences()).mean().backward()
            optimiser.step()
    for mine, other in zip(model.parameters(), twin.parameters(), strict=True):
        close(mine, other)


@pytest.mark.long
@each_model
def test_compiled_by_inductor(name: str) -> None:
    model = model_of(name)
    equal_with_gradients(torch.compile(model, fullgraph=True), model, sequences())
    equal_with_gradients(torch.compile(model, fullgraph=True), model, sequences(), torch.tensor([3, 0]))


def test_compiled_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    for name in ("own cell", "Stack"):
        model = model_of(name)
        equal_with_gradients(torch.compile(model, fullgraph=True, backend="aot_eager"), model, sequences())


# torch.export


@each_model
def test_exported(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    program = torch.export.export(model, (sequences(),))
    assert "unspool.recurrence" in program.graph_module.code
    module = program.module()
    close(module(sequences()), model(sequences()))
    module(sequences()).sum().backward()
    model(sequences()).sum().backward()
    mine, own = dict(module.named_parameters()), dict(model.named_parameters())
    for parameter, value in own.items():
        close(mine[parameter].grad, value.grad)
    torch.export.save(program, tmp_path / "model.pt2")
    close(torch.export.load(tmp_path / "model.pt2").module()(sequences()), model(sequences()))


@each_model
def test_exported_for_any_number_of_steps_and_rows(name: str) -> None:
    model = model_of(name)
    steps, rows = torch.export.Dim("steps", min=1, max=500), torch.export.Dim("rows", min=1, max=500)
    module = torch.export.export(model, (sequences(),), dynamic_shapes=({0: steps, 1: rows},)).module()
    for shape in ((5, 2), (1, 1), (9, 4)):
        close(module(sequences(*shape)), model(sequences(*shape)))


def test_exported_with_lengths() -> None:
    model = model_of("Bidirectional")
    module = torch.export.export(model, (sequences(5, 6), torch.tensor(ragged(5, 6)))).module()
    for lengths in (ragged(5, 6), (0, 0, 5, 5, 2, 1)):
        given = sequences(5, 6), torch.tensor(lengths)
        close(module(*given), model(*given))


def test_an_export_without_gradients_says_so_when_they_are_wanted() -> None:
    with torch.no_grad():
        module = torch.export.export(model_of("GRU"), (sequences(),)).module()
    close(module(sequences()), model_of("GRU")(sequences()))
    with pytest.raises(UnspoolError, match="without gradients"):
        module(sequences()).sum().backward()
