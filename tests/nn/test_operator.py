"""The kernels as operators: their registration, and models with them under torch.compile and torch.export."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from tests.engine.agreement import Call, draw, needs_compiler
from tests.variants import VARIANTS
from torch import Tensor, nn
from torch.library import opcheck

import unspool
from unspool import engine
from unspool.cells import Cell, Symbol, document, find_cell, sigmoid, tanh
from unspool.errors import UnspoolError
from unspool.nn import Recurrent, Stack, operator

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*")]
close = partial(torch.testing.assert_close, rtol=1e-11, atol=1e-11)
FORWARD, BACKWARD = torch.ops.unspool.recurrence.default, torch.ops.unspool.recurrence_backward.default
assert operator.recurrence is not None  # importing it is what registers them


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Kernels are on, and torch's compiler remembers nothing and takes torch.nn's recurrent layers, as ours are."""
    monkeypatch.delenv("UNSPOOL_ENGINE", raising=False)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


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


def turned(value: Any) -> Any:
    """The same tensors, their memory in the opposite order of axes."""
    if isinstance(value, list):
        return [turned(part) for part in value]
    if not isinstance(value, Tensor):
        return value
    axes = tuple(reversed(range(value.dim())))
    return value.detach().permute(axes).contiguous().permute(axes).requires_grad_(value.requires_grad)


def back(values: tuple[Any, ...], turn: Callable[[Any], Any] = lambda value: value) -> tuple[Any, ...]:
    """The arguments of the way back from a call."""
    output, *final, tape = FORWARD(*detached(values))
    slopes = [torch.randn_like(value) for value in (output, *final)]
    return (*detached(values)[:-1], turn(output), tape, turn(slopes))


@pytest.mark.parametrize("lengths", [None, (1, 0, 4)], ids=["full", "ragged"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_opcheck(reverse: bool, lengths: tuple[int, ...] | None) -> None:
    given = arguments(draw(find_cell("lstm"), 4, 3, 2, 3, lengths=lengths, reverse=reverse))
    opcheck(FORWARD, given)
    opcheck(BACKWARD, back(given))


def test_opcheck_without_gradients() -> None:
    opcheck(FORWARD, detached(arguments(draw(find_cell("lstm"), 4, 3, 2, 3), keep=False)))


def test_tensors_laid_out_otherwise() -> None:
    """What the compiler is told of the results' layout is what they have, and their values are the same."""
    given = arguments(draw(find_cell("lstm"), 4, 3, 2, 3, lengths=(1, 0, 4)))
    other = tuple(turned(value) for value in given)
    assert not other[2].is_contiguous()
    assert not any(tensor.is_contiguous() for tensor in (*other[3], *(p for p in other[4] if p.dim() == 2)))
    opcheck(FORWARD, other)
    opcheck(BACKWARD, back(other, turned))
    for mine, expected in zip(FORWARD(*other), FORWARD(*given), strict=True):
        assert torch.equal(mine, expected)
    again = back(given)
    for mine, expected in zip(BACKWARD(*map(turned, again)), BACKWARD(*again), strict=True):
        assert torch.equal(mine, expected)


@pytest.mark.parametrize(("steps", "rows"), [(0, 3), (4, 0)])
def test_nothing_to_compute(steps: int, rows: int) -> None:
    given = arguments(draw(find_cell("lstm"), steps, rows, 2, 3))
    opcheck(FORWARD, given)
    output, *final, _ = FORWARD(*given)
    assert output.shape == (steps, rows, 3)
    assert all(map(torch.equal, final, given[3]))
    slopes = torch.autograd.grad(final[1].square().sum(), [given[3][1], given[4][0]])
    assert torch.equal(slopes[0], 2 * given[3][1])
    assert not slopes[1].any()


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


def freed(tensor: Tensor) -> Tensor:
    tensor = tensor.clone()
    tensor.untyped_storage().resize_(0)
    return tensor


Change = Callable[[Any], Any]
#: Which argument, how it is changed, and what is said.
WRONG: dict[str, tuple[int, Change, str]] = {
    "x of two dimensions": (2, lambda x: x[0], "`x`.*time, batch, features"),
    "x of four dimensions": (2, lambda x: x[None], "`x`.*time, batch, features"),
    "x of another width": (2, lambda x: x[..., :1], "parameters"),
    "x without rows": (2, lambda x: x[:, :0], "`states.*is not of shape"),
    "x without features": (2, lambda x: x[..., :0], "`x`.*time, batch, features"),
    "x of half precision": (2, lambda x: x.half(), "float32 or float64"),
    "x of whole numbers": (2, lambda x: x.long(), "float32 or float64"),
    "x of another dtype": (2, lambda x: x.float(), "is not x's"),
    "x whose memory is freed": (2, freed, "has no memory"),
    "a state too many": (3, lambda s: [*s, s[0]], "`states`.*not 1 tensors"),
    "no states": (3, lambda s: [], "`states`.*not 1 tensors"),
    "a state of another batch": (3, lambda s: [s[0][:1]], "is not of shape"),
    "a state of another width": (3, lambda s: [s[0][:, :1]], "is not of shape"),
    "a state of one dimension": (3, lambda s: [s[0].flatten()], "is not of shape"),
    "a state of another dtype": (3, lambda s: [s[0].float()], "is not x's"),
    "a state whose memory is freed": (3, lambda s: [freed(s[0])], "has no memory"),
    "a sparse state": (3, lambda s: [s[0].to_sparse()], "strided"),
    "a parameter too few": (4, lambda p: p[:-1], "`parameters`.*not 9 tensors"),
    "a parameter too many": (4, lambda p: [*p, p[0]], "`parameters`.*not 9 tensors"),
    "no parameters": (4, lambda p: [], "`parameters`.*not 9 tensors"),
    "parameters in another order": (4, lambda p: p[::-1], r"parameters\[0\].*is not of shape"),
    "a transposed parameter": (4, lambda p: [p[0].T, *p[1:]], r"parameters\[0\].*is not of shape"),
    "a parameter of another dtype": (4, lambda p: [*p[:-1], p[-1].float()], r"parameters\[8\].*is not x's"),
    "a parameter whose memory is freed": (4, lambda p: [*p[:-1], freed(p[-1])], "has no memory"),
    "lengths too large": (5, lambda _: torch.tensor([4, 99]), "from 0 to 4"),
    "lengths below zero": (5, lambda _: torch.tensor([4, -1]), "from 0 to 4"),
    "lengths too few": (5, lambda _: torch.tensor([4]), "not 2 numbers"),
    "lengths too many": (5, lambda _: torch.tensor([4, 4, 4]), "not 2 numbers"),
    "lengths in a table": (5, lambda _: torch.tensor([[4, 4]]), "not 2 numbers"),
    "lengths that are no whole numbers": (5, lambda _: torch.tensor([4.0, 1.0]), "whole numbers"),
    "a hidden size that is too large": (1, lambda _: 700, "is not of shape"),
    "a hidden size of zero": (1, lambda _: 0, "hidden_size"),
    "a hidden size below zero": (1, lambda _: -3, "hidden_size"),
    "an empty cell": (0, lambda _: "", "not JSON"),
    "a cell that is none": (0, lambda _: "{}", "format"),
    "half a cell": (0, lambda cell: cell[: len(cell) // 2], "not JSON"),
    "a cell in too many brackets": (0, lambda _: "[" * 100_000, "not JSON"),
    "a cell without nodes": (0, lambda cell: cell.replace('"nodes"', '"knots"'), "nodes"),
    "a cell of other operations": (0, lambda cell: cell.replace("sigmoid", "system"), "operation"),
    "a cell of other widths": (0, lambda cell: cell.replace('"hidden"', '"input"'), "is not of shape"),
    "another cell": (0, lambda _: document.dump(find_cell("lstm").equations()), "`states`.*not 2 tensors"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused_before_a_kernel_sees_them(name: str) -> None:
    given = list(detached(arguments(draw(find_cell("gru"), 4, 2, 2, 3))))
    place, change, said = WRONG[name]
    ways = {"forward": list(given), "backward": list(back(tuple(given)))}
    with patch.object(engine.Kernel, "_run", side_effect=AssertionError("a kernel ran")):
        for way, values in ways.items():
            values[place] = change(values[place])
            with pytest.raises(UnspoolError, match=said):
                (FORWARD if way == "forward" else BACKWARD)(*values)


WRONG_BACK: dict[str, tuple[int, Change, str]] = {
    "a shorter tape": (8, lambda tape: tape[:-1], "tape"),
    "no tape": (8, lambda tape: tape[:0], "tape"),
    "a tape of another dtype": (8, lambda tape: tape.float(), "tape"),
    "output of fewer steps": (7, lambda output: output[1:], "output"),
    "output of another dtype": (7, lambda output: output.float(), "output"),
    "a gradient too few": (9, lambda slopes: slopes[:-1], "gradients.*not 2 tensors"),
    "a gradient of another shape": (9, lambda slopes: [slopes[0][:1], slopes[1]], r"gradients\[0\]"),
    "a gradient of another dtype": (9, lambda slopes: [slopes[0], slopes[1].float()], r"gradients\[1\]"),
}


@pytest.mark.parametrize("name", WRONG_BACK)
def test_wrong_arguments_of_the_way_back_are_refused(name: str) -> None:
    given = list(back(arguments(draw(find_cell("gru"), 4, 2, 2, 3))))
    place, change, said = WRONG_BACK[name]
    given[place] = change(given[place])
    with (
        patch.object(engine.Kernel, "_run", side_effect=AssertionError("a kernel ran")),
        pytest.raises(UnspoolError, match=said),
    ):
        BACKWARD(*given)


def test_x_that_a_cell_reads_unit_by_unit_is_as_wide_as_its_state() -> None:
    call = draw(VARIANTS["UnitByUnit"], 4, 2, 3, 3)
    given = list(detached(arguments(call)))
    given[2] = given[2][..., :2]
    with pytest.raises(UnspoolError, match="`x`.*is not of shape"):
        FORWARD(*given)


def test_lengths_that_changed_since_are_noticed() -> None:
    given = arguments(draw(find_cell("gru"), 4, 2, 2, 3, lengths=(1, 4)))
    output = FORWARD(*given)[0]
    given[5].fill_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


# torch.compile


def models() -> dict[str, Callable[[], nn.Module]]:
    double: Any = {"dtype": torch.float64}
    return {
        "LSTM": lambda: unspool.nn.LSTM(3, 4, num_layers=2, bidirectional=True, **double),
        "own cell": lambda: Recurrent(Own, 3, 4, learn_initial=True, reverse=True, **double),
        "Stack": lambda: Stack("gru", 3, [4, 5], **double),
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


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # torch's own, where the graph breaks
def test_compiled_with_lengths() -> None:
    model = model_of("own cell")
    compiled = torch.compile(model, backend="aot_eager")
    for lengths in ((3, 0), (5, 1)):
        equal_with_gradients(compiled, model, sequences(), torch.tensor(lengths))
    with pytest.raises(UnspoolError, match="not all from 0 to 5"):
        compiled(sequences(), torch.tensor([3, 6]))


def test_compiled_for_any_number_of_steps_and_rows() -> None:
    model = model_of("own cell")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for steps, rows in ((5, 2), (7, 3), (2, 9)):
        equal_with_gradients(compiled, model, sequences(steps, rows))


def test_a_compiled_model_learns() -> None:
    model = model_of("Stack")
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for run, own in ((compiled, model), (twin, twin)):
        optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            run(sequences()).mean().backward()
            optimizer.step()
    for mine, other in zip(model.parameters(), twin.parameters(), strict=True):
        close(mine, other)


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


def test_exported_for_another_process(tmp_path: Path) -> None:
    """What loads an exported program needs nothing of the model that it came from but the import of unspool.nn."""
    model = model_of("own cell")
    torch.export.save(torch.export.export(model, (sequences(),)), tmp_path / "model.pt2")
    torch.save((sequences(), model(sequences()).detach()), tmp_path / "expected.pt")
    script = """if True:
        import sys, torch, unspool.nn
        x, expected = torch.load(sys.argv[1] + "/expected.pt")
        torch.testing.assert_close(torch.export.load(sys.argv[1] + "/model.pt2").module()(x), expected)
    """
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_exported_for_any_number_of_steps_and_rows(tmp_path: Path) -> None:
    model = model_of("own cell")
    steps, rows = torch.export.Dim("steps", min=1, max=500), torch.export.Dim("rows", min=1, max=500)
    program = torch.export.export(model, (sequences(),), dynamic_shapes=({0: steps, 1: rows},))
    torch.export.save(program, tmp_path / "model.pt2")
    module = torch.export.load(tmp_path / "model.pt2").module()
    for shape in ((5, 2), (1, 1), (9, 4)):
        close(module(sequences(*shape)), model(sequences(*shape)))


def test_an_export_without_gradients_says_so_when_they_are_wanted() -> None:
    with torch.no_grad():
        module = torch.export.export(model_of("Stack"), (sequences(),)).module()
    close(module(sequences()), model_of("Stack")(sequences()))
    with pytest.raises(UnspoolError, match="without gradients"):
        module(sequences()).sum().backward()
