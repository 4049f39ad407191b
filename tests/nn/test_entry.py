"""Calls through the entry in C++: the same bits as through Python, and the same refusals."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from tests.engine.agreement import needs_compiler
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

import unspool
from unspool.cells import Cell, Symbol, sigmoid, tanh
from unspool.errors import UnspoolError
from unspool.nn import Recurrent, wavefront
from unspool.nn.chain import find_chain
from unspool.nn.entry import ENTRY, SMALL, Entry

pytestmark = [needs_compiler, pytest.mark.usefixtures("kernels_on")]
NODE = "CppFunction"


class Minimal(Cell):
    def step(self, x: Symbol, h: Symbol) -> Symbol:
        z = sigmoid(self.linear("z", x))
        n = tanh(self.linear("n", x, z * h))
        return (1 - z) * h + z * n


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "RNN": lambda: unspool.nn.RNN(3, 5),
    "GRU": lambda: unspool.nn.GRU(3, 5, bias=False),
    "LSTM": lambda: unspool.nn.LSTM(3, 5, proj_size=2),
    "two LSTMs": lambda: unspool.nn.LSTM(3, 5, 2, batch_first=True),
    "three RNNs": lambda: unspool.nn.RNN(3, 5, 3, dropout=0.5).eval(),
    "Recurrent": lambda: Recurrent(Minimal, 3, 5),
}


@contextmanager
def through_python() -> Iterator[None]:
    """Within, small calls go through Python."""
    call, ENTRY.call = ENTRY.call, None
    try:
        yield
    finally:
        ENTRY.call = call


def parts_of(found: Any) -> list[Tensor]:
    output, state = found
    return [output, *(state if isinstance(state, tuple) else (state,))]


def losses(found: Any) -> list[Tensor]:
    """Losses whose gradients come in every form: no strides, some, all, and of some results alone."""
    output, *final = parts_of(found)
    return [
        output.sum(),
        (output * torch.arange(output.numel(), dtype=output.dtype).reshape(output.shape).cos()).sum(),
        output.mean((0, 1)).square().sum(),
        output[..., ::2].sin().sum(),
        final[-1].square().sum(),
        output.transpose(0, 2).square().sum() + final[0].sum(),
    ]


def slopes(layer: nn.Module, x: Tensor, hx: Any) -> list[Tensor]:
    found = layer(x, hx) if hx is not None else layer(x)
    sources = [x, *(hx if isinstance(hx, tuple) else [hx] * (hx is not None)), *layer.parameters()]
    slopes: list[Tensor] = []
    for loss in losses(found):
        slopes += torch.autograd.grad(loss, sources, retain_graph=True, materialize_grads=True)
    return [*parts_of(found), *slopes]


def start_of(layer: nn.Module, x: Tensor) -> Any:
    """An initial state that wants a gradient."""
    with torch.no_grad():
        state = layer(x)[1]
    random = torch.Generator().manual_seed(3)

    def draw(part: Tensor) -> Tensor:
        return torch.randn(part.shape, dtype=part.dtype, generator=random).requires_grad_()

    return tuple(map(draw, state)) if isinstance(state, tuple) else draw(state)


def is_entered(tensor: Tensor) -> bool:
    """Whether a result came through the entry, as its node in autograd's graph tells."""
    return type(tensor.grad_fn).__name__ == NODE


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("name", LAYERS)
def test_values_and_gradients_have_the_bits_of_pythons(name: str, steps: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name]().to(dtype)
    shape = (2, steps, 3) if getattr(layer, "batch_first", False) else (steps, 2, 3)
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    for hx in (None, start_of(layer, x)):
        given = () if hx is None else (hx,)
        for _ in range(2):  # the first call makes the tensors known
            layer(x, *given)
        found = slopes(layer, x, hx)
        with through_python():
            expected = slopes(layer, x, hx)
        if name == "three RNNs" and steps == 1:  # of Python's, torch's own operation
            for mine, other in zip(found, expected, strict=True):
                torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6 if dtype == torch.float32 else 1e-14)
        else:
            assert all(map(torch.equal, found, expected))
        node: Any = layer(x, *given)[0].grad_fn
        assert NODE in {type(node).__name__, type(node.next_functions[0][0]).__name__}
    with torch.no_grad():
        plain = parts_of(layer(x))
        with through_python():
            for mine, other in zip(plain, parts_of(layer(x)), strict=True):
                torch.testing.assert_close(mine, other)


def known(layer: Any, x: Tensor) -> Any:
    layer(x)
    found = layer(x)
    assert is_entered(found[0])
    return found


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_gradients_of_layers_at_once(frozen: int, at_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of as many layers at once as there are threads; below the lowest that wants a gradient, nothing is computed."""
    monkeypatch.setattr(wavefront, "LEAST_WORK", 1)
    monkeypatch.setattr(wavefront, "LEAST_STEP", 1 if at_once else 1 << 30)
    torch.manual_seed(0)
    layer = unspool.nn.GRU(3, 4, 3).double()
    for name, weight in layer.named_parameters():
        weight.requires_grad_(int(name[-1]) >= frozen)
    x = torch.randn(30, 2, 3, dtype=torch.float64, requires_grad=frozen == 0)
    sources = [each for each in (x, *layer.parameters()) if each.requires_grad]

    def slopes() -> tuple[Tensor, ...]:
        output, state = layer(x)
        assert through or is_entered(output)
        loss = output.sin().sum() + (state * torch.arange(3.0).view(3, 1, 1)).square().sum()
        return torch.autograd.grad(loss, sources)

    threads, through = torch.get_num_threads(), True
    torch.set_num_threads(2)
    try:
        with through_python(), wavefront.layers_apart():
            expected = [slopes() for _ in range(2)][-1]
        through = False
        assert all(map(torch.equal, slopes(), expected))
        assert all(not weight.grad_fn for weight in layer.parameters())
    finally:
        torch.set_num_threads(threads)


def test_gradients_of_several_layers_are_differentiated_again() -> None:
    layer = unspool.nn.GRU(2, 3, 2).double()
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    state = torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True)
    for _ in range(2):
        found = layer(x, state)
    assert is_entered(found[0])
    assert torch.autograd.gradgradcheck(lambda *given: layer(*given), (x, state))


@pytest.mark.parametrize("through", ["entry", "python"])
@pytest.mark.parametrize("layers", [1, 2])
def test_zeros_without_memory_are_zeros(layers: int, through: str, request: pytest.FixtureRequest) -> None:
    layer, x = unspool.nn.LSTM(3, 4, layers), torch.randn(5, 2, 3, requires_grad=True)
    theirs = nn.LSTM(3, 4, layers)
    theirs.load_state_dict(layer.state_dict())
    known(layer, x)
    if through == "python":
        request.getfixturevalue("without_entry")

    def slope(module: Any, loss: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        output, (h, c) = module(x)
        return torch.autograd.grad(output.sum() + loss(h, c), x)[0]

    for loss in (lambda h, _: h.sgn().sum(), lambda h, c: torch.cat([h, c]).sgn().sum()):
        torch.testing.assert_close(slope(layer, loss), slope(theirs, loss))
    none = torch._efficientzerotensor((5, 2, 4))
    assert not torch.autograd.grad(layer(x)[0], x, none)[0].any()
    torch.testing.assert_close(layer(torch._efficientzerotensor((5, 2, 3)))[0], theirs(torch.zeros(5, 2, 3))[0])
    start = torch._efficientzerotensor((layers, 2, 4))
    torch.testing.assert_close(layer(x, (start, start))[0], theirs(x)[0])
    layer.weight_hh_l0 = nn.Parameter(torch._efficientzerotensor((16, 4)))
    with torch.no_grad():
        theirs.get_parameter("weight_hh_l0").zero_()
    torch.testing.assert_close(layer(x)[0], theirs(x)[0])


def test_checkpoints_of_layers_that_are_called_for_the_first_time() -> None:
    layer, x = unspool.nn.LSTM(3, 43, 2), torch.randn(5, 2, 3, requires_grad=True)  # of a size of its own
    for _ in range(2):
        checkpoint(lambda x: layer(x)[0], x, use_reentrant=False).sum().backward()
    output = checkpoint(lambda x: layer(x)[0], x, use_reentrant=False)
    with through_python():  # as if the entry had come between the passes
        output.sum().backward()


@pytest.mark.parametrize("layers", [1, 2])
def test_a_hook_that_raises_leaves_nothing_behind(layers: int) -> None:
    layer, x = unspool.nn.GRU(2, 3, layers), torch.randn(3, 2, 2)
    known(layer, x)
    weight = weakref.ref(layer.get_parameter("weight_ih_l0"))

    def refuse(_: Tensor) -> None:
        raise ValueError("not saved")

    with (
        torch.autograd.graph.saved_tensors_hooks(refuse, lambda kept: kept),
        pytest.raises(ValueError, match="not saved"),
    ):
        layer(x)
    del layer
    gc.collect()
    assert weight() is None


def test_single_steps_in_training_enter_from_the_second_on() -> None:
    layer, x = unspool.nn.GRU(3, 44, 2), torch.randn(1, 2, 3)  # of a size of its own
    layer(x)
    assert is_entered(layer(x)[0])


def test_what_a_layer_was_made_into_is_not_overlooked() -> None:
    layer, x = unspool.nn.GRU(2, 3), torch.randn(3, 2, 2)
    known(layer, x)
    for name, value in (("mode", ["GRU"]), ("gates", ("z", "r", "n"))):
        changed = copy.deepcopy(layer)
        setattr(changed, name, value)
        with through_python():
            expected = parts_or_error(changed, x)
        assert parts_or_error(changed, x) == expected, name


def parts_or_error(layer: nn.Module, x: Tensor) -> str:
    try:
        return str(layer(x)[0].tolist())
    except UnspoolError as error:
        return str(error)


def test_modes_of_torch_see_every_function() -> None:
    class Watching(TorchFunctionMode):
        def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(getattr(function, "__name__", ""))
            return function(*args, **(kwargs or {}))

    for layers in (1, 2):
        layer, x, seen = unspool.nn.GRU(2, 3, layers), torch.randn(3, 2, 2), list[str]()
        output = known(layer, x)[0]
        with Watching():
            found = layer(x)[0]
        assert torch.allclose(found, output)
        assert not is_entered(found)
        assert seen


def test_an_entry_is_loaded_once() -> None:
    own = Entry()
    own.prepare()
    with patch.object(own, "call", None):
        assert own.prepare() is None
        assert own.call is None


def test_a_second_differentiation() -> None:
    layer = unspool.nn.GRU(2, 3).double()
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    known(layer, x)
    weights = dict(layer.named_parameters())

    def run(x: Tensor, weight: Tensor) -> Any:
        assert weight is weights["weight_hh_l0"]
        return layer(x)

    assert torch.autograd.gradgradcheck(run, (x, weights["weight_hh_l0"]))
    output = layer(x)[0]
    (first,) = torch.autograd.grad(output.square().sum(), weights["bias_ih_l0"], create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    with through_python():
        (first,) = torch.autograd.grad(layer(x)[0].square().sum(), weights["bias_ih_l0"], create_graph=True)
        (other,) = torch.autograd.grad(first.square().sum(), x)
    np.testing.assert_allclose(second, other, rtol=1e-12)


def test_gradients_in_batches() -> None:
    layer, x = unspool.nn.LSTM(2, 3), torch.randn(3, 2, 2, requires_grad=True)
    output = known(layer, x)[0]
    many = torch.randn(4, *output.shape)
    (found,) = torch.autograd.grad(output, x, many, is_grads_batched=True, retain_graph=True)
    each = [torch.autograd.grad(output, x, one, retain_graph=True)[0] for one in many]
    assert torch.allclose(found, torch.stack(each), atol=1e-6)
    inner = torch.func.vmap(lambda one: torch.autograd.grad(output, x, one, retain_graph=True)[0])(many)
    assert torch.allclose(inner, torch.stack(each), atol=1e-6)


def test_what_changed_after_the_forward_pass_is_noticed() -> None:
    layer, x = unspool.nn.GRU(2, 3), torch.randn(3, 2, 2)
    output = known(layer, x)[0]
    with torch.no_grad():
        layer.get_parameter("weight_hh_l0").add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()
    output = layer(x)[0]
    output.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        output.sum().backward()


def test_memory_that_is_gone_is_refused() -> None:
    layer, x = unspool.nn.GRU(2, 3), torch.randn(3, 2, 2)
    output = known(layer, x)[0]
    held = layer.get_parameter("weight_ih_l0").untyped_storage()
    held.resize_(0)
    with pytest.raises(UnspoolError, match="weight_ih.*has no memory"):
        output.sum().backward()
    with pytest.raises(UnspoolError, match="weight_ih.*has no memory"):
        layer(x)


def test_hooks_and_checkpoints_see_what_is_saved() -> None:
    layer, x = unspool.nn.LSTM(2, 3), torch.randn(3, 2, 2, requires_grad=True)
    known(layer, x)
    packed: list[Tensor] = []

    def pack(tensor: Tensor) -> int:
        packed.append(tensor.detach().clone())
        return len(packed) - 1

    (expected,) = torch.autograd.grad(layer(x)[0].sum(), x)
    with torch.autograd.graph.saved_tensors_hooks(pack, packed.__getitem__):
        output = layer(x)[0]
    assert is_entered(output)
    assert len(packed) == 1 + 4 + 2  # the input, the weights, the output and the tape
    assert torch.equal(torch.autograd.grad(output.sum(), x)[0], expected)
    again = checkpoint(lambda x: layer(x)[0], x, use_reentrant=False)
    assert torch.equal(torch.autograd.grad(again.sum(), x)[0], expected)


def test_what_does_not_fit_is_left_to_python() -> None:
    layer, x = unspool.nn.GRU(2, 3), torch.randn(3, 2, 4)[..., ::2]
    layer(x)
    output = layer(x)[0]
    assert not is_entered(output)
    assert torch.equal(output, layer(x.contiguous())[0])
    steps = 1 + SMALL // (2 * 4 * 3)  # even a tape of one number per unit is too long for the entry
    long = torch.randn(steps, 2, 2)
    layer(long)
    assert not is_entered(layer(long)[0])


def chain_of(layer: Any) -> int:
    """The number by which the entry knows the layer."""
    number: int = find_chain(tuple(layer.runners()), stacked=True).numbers[torch.float32]
    return number


def test_the_entry_refuses_what_no_kernel_can_read() -> None:
    layer, x = unspool.nn.GRU(2, 3), torch.randn(3, 2, 2)
    known(layer, x)
    call: Any = ENTRY.call
    weights = list(layer.parameters())
    number = chain_of(layer)
    assert len(call(number, (x, *weights), False)) == 2
    wrong: Sequence[Sequence[Tensor]] = (
        [],
        [x],
        [x, *weights[1:]],
        [x[:0], *weights],
        [x[0], *weights],
        [x.double(), *weights],
        [x, weights[1], weights[0], *weights[2:]],
        [x, weights[0].T, *weights[1:]],
        [x, weights[0].detach().T.contiguous(), *weights[1:]],
        [x, x, *weights],
        [x.to("meta"), *weights],
        [x.to_sparse(), *weights],
        [torch._neg_view(x), *weights],
        [x, *weights, *weights],
    )
    for tensors in wrong:
        assert call(number, tuple(tensors), False) == ()
    with torch.autocast("cpu"):
        assert call(number, (x, *weights), False) == ()
    for other in (-1, number + 1000):
        with pytest.raises(RuntimeError, match="there is no chain"):
            call(other, (x, *weights), False)
    for given in (
        (number,),
        (number, [x], False),
        (number, (x, None), False),
        ("0", (x,), False),
        (2**70, (x,), False),
    ):
        with pytest.raises((TypeError, OverflowError)):
            call(*given)


def test_gradients_are_recorded() -> None:
    layer, x = unspool.nn.GRU(2, 3), torch.randn(3, 2, 2, requires_grad=True)
    one = torch.ones(3, 2, 3)

    def check(output: Tensor) -> None:
        def slope(given: Tensor) -> Tensor:
            return torch.autograd.grad(output, x, given, retain_graph=True)[0]

        graph: Any = make_fx(slope)(one)
        assert torch.allclose(graph(2 * one), slope(2 * one), atol=1e-6)

    check(known(layer, x)[0])
    with through_python():
        check(layer(x)[0])


@pytest.mark.parametrize("layers", [1, 2])
def test_states_in_a_tuple_of_the_wrong_length_are_refused(layers: int) -> None:
    x, state = torch.randn(1, 2, 2), torch.randn(layers, 2, 3)
    gru, lstm = unspool.nn.GRU(2, 3, layers), unspool.nn.LSTM(2, 3, layers)
    for _ in range(2):
        gru(x, state)
        lstm(x, (state, state))
    with pytest.raises(UnspoolError, match="Give the initial state as one tensor"):
        gru(x, (state,))
    for wrong in ((), (state,), (state, state, state)):
        with pytest.raises(UnspoolError, match="expects two hidden states"):
            lstm(x, wrong)


def test_layers_of_the_same_sizes_share_their_chain() -> None:
    from unspool.nn.quick_call import _chains

    for _ in range(2):
        layer, x = Recurrent(Minimal, 4, 6), torch.randn(1, 1, 4)
        known(layer, x)
    before = len(_chains)
    del layer
    gc.collect()
    known(Recurrent(Minimal, 4, 6), x)
    assert len(_chains) == before


def run_in_child(layer: nn.Module, x: Tensor, pipe: Any) -> None:
    output = layer(x)[0]
    pipe.send((is_entered(output), output.detach().numpy(), torch.autograd.grad(output.sum(), x)[0].numpy()))


def test_the_child_of_a_fork() -> None:
    layer, x = unspool.nn.LSTM(8, 64), torch.randn(20, 8, 8, requires_grad=True)
    output = known(layer, x)[0]
    mine, other = multiprocessing.get_context("fork").Pipe()
    child = multiprocessing.get_context("fork").Process(target=run_in_child, args=(layer, x, other))
    child.start()
    assert mine.poll(60)
    entered, values, gradient = mine.recv()
    child.join()
    assert entered
    assert np.array_equal(values, output.detach())
    assert np.array_equal(gradient, torch.autograd.grad(output.sum(), x)[0])


def call_in_children(pipe: Any) -> None:
    """Fork while other threads call the entry; tell how many children did not come back."""
    layer, x = unspool.nn.GRU(2, 3), torch.randn(1, 1, 2)
    assert ENTRY.prepare() is None
    known(layer, x)
    number = chain_of(layer)
    tensors, done, lost = (x, *(weight.detach() for weight in layer.parameters())), threading.Event(), 0
    call: Any = ENTRY.call

    def spin() -> None:
        while not done.is_set():
            call(number, tensors, False)

    threads = [threading.Thread(target=spin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3000):
        if (child := os.fork()) == 0:
            signal.alarm(20)
            call(number, tensors, False)
            os._exit(0)
        lost += os.waitpid(child, 0)[1] != 0
    done.set()
    for thread in threads:
        thread.join()
    pipe.send(lost)


@pytest.mark.long
def test_a_fork_while_other_threads_call() -> None:
    context = multiprocessing.get_context("spawn")
    mine, other = context.Pipe()
    process = context.Process(target=call_in_children, args=(other,))
    process.start()
    assert mine.poll(300)
    assert mine.recv() == 0
    process.join()


def test_calls_of_python_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(Entry, "notice", lambda self: seen.append(1))
    one, several, x = unspool.nn.GRU(2, 3), unspool.nn.GRU(2, 3, 2), torch.randn(1, 2, 2)
    with through_python():
        for layer in (one, several):
            for _ in range(3):
                layer(x)
    assert len(seen) >= 2 + 3
