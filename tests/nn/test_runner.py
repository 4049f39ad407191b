"""The kernel's place in torch: derivatives of every kind, function transforms, recorded operations."""

from __future__ import annotations

import io
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from tests.nn.small_runner import (
    KERNELS,
    RAGGED,
    by_loop,
    draw,
    each_dtype,
    loss,
    make,
    near,
    only_kernels,
    same,
    sequences,
)
from torch import Tensor, nn
from torch.autograd import forward_ad, grad
from torch.func import functional_call, jacfwd, jacrev, jvp, stack_module_state, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

import unspool
from unspool import engine

pytestmark = KERNELS


# First derivatives


WANTED: dict[str, Callable[[Any, Tensor, Tensor], list[Tensor]]] = {
    "x": lambda layer, x, h: [x],
    "state": lambda layer, x, h: [h],
    "parameters": lambda layer, x, h: list(layer.parameters()),
    "one weight": lambda layer, x, h: [layer.U_z],
    "all": lambda layer, x, h: [x, h, *layer.parameters()],
}


@each_dtype
@pytest.mark.parametrize("used", ["output", "final", "both"])
@pytest.mark.parametrize("name", WANTED)
def test_gradients_of_some(name: str, used: str, dtype: torch.dtype) -> None:
    layer, (x, h) = make(dtype), sequences(dtype, wanted=False)
    for parameter in layer.parameters():
        parameter.requires_grad_(False)
    wanted = [tensor.requires_grad_() for tensor in WANTED[name](layer, x, h)]
    part = {"output": slice(1), "final": slice(1, 2), "both": slice(2)}[used]
    for lengths in (None, RAGGED):
        with only_kernels():
            found = grad(loss(*layer(x, h, lengths=lengths)[part]), wanted)
        near(found, grad(loss(*by_loop(layer, x, h, lengths)[part]), wanted))


SHARED: dict[str, Callable[[Tensor], Tensor]] = {
    "one number": lambda output: output.sum(),
    "one row": lambda output: (output.sum((0, 1)) * torch.arange(output.shape[2])).sum(),
    "one row a step": lambda output: (output.sum(1) * torch.arange(output.shape[0]).unsqueeze(1)).sum(),
}


@pytest.mark.parametrize("recompute", [None, 2])
@pytest.mark.parametrize("name", SHARED)
def test_gradients_that_share_their_memory(name: str, recompute: int | None) -> None:
    layer, (x, h) = make(recompute=recompute), sequences()
    into = [x, h, *layer.parameters()]
    for lengths in (None, RAGGED):
        with only_kernels():
            found = grad(SHARED[name](layer(x, h, lengths=lengths)[0]), into)
        near(found, grad(SHARED[name](by_loop(layer, x, h, lengths)[0]), into))


def test_gradients_twice_from_one_graph() -> None:
    layer, (x, h) = make(), sequences()
    total = loss(*layer(x, h))
    into = [x, h, *layer.parameters()]
    same(grad(total, into, retain_graph=True), grad(total, into, retain_graph=True))
    near(grad(total, into), grad(loss(*by_loop(layer, x, h)), into))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        grad(total, into)


def test_gradients_add_up_over_calls() -> None:
    layer, (x, h) = make(), sequences()
    for _ in range(2):
        loss(*layer(x, h)).backward()
    (expected,) = grad(loss(*by_loop(layer, x, h)), layer.U_z)
    near(layer.U_z.grad, 2 * expected)


CHANGED: dict[str, Callable[[Any, Tensor, Tensor, Tensor], object]] = {
    "x": lambda layer, x, h, output: x.mul_(2),
    "a part of x": lambda layer, x, h, output: x[0].zero_(),
    "the state": lambda layer, x, h, output: h.add_(1),
    "a weight": lambda layer, x, h, output: layer.U_z.mul_(2),
    "the output": lambda layer, x, h, output: output.detach().zero_(),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_was_saved_and_changed_is_noticed(name: str) -> None:
    layer, (x, h) = make(), sequences()
    output, final = layer(x, h)
    with torch.no_grad():
        CHANGED[name](layer, x, h, output)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss(output, final).backward()


def test_a_final_state_may_be_changed_in_place() -> None:
    layer, (x, h) = make(), sequences()
    found, expected = layer(x, h), by_loop(layer, x, h)
    for results in (found, expected):
        results[1].mul_(3)
    near(found, expected)
    near(grad(loss(*found), [x, h]), grad(loss(*expected), [x, h]))


def test_hooks_on_tensors() -> None:
    layer, (x, h) = make(), sequences()
    seen: list[Tensor] = []

    def slopes(run: Callable[..., tuple[Tensor, Tensor]]) -> list[Tensor]:
        inner = x * 1
        inner.register_hook(lambda slope: 3 * slope)
        output, final = run(inner, h)
        output.register_hook(lambda slope: seen.append(slope) or slope.square())  # type: ignore[func-returns-value]
        return [*grad(loss(output, final), [x, h, *layer.parameters()])]

    near(slopes(layer), slopes(partial(by_loop, layer)))
    near(seen[0], seen[1])
    layer.U_z.register_post_accumulate_grad_hook(lambda weight: seen.append(weight.grad.clone()))
    loss(*layer(x, h)).backward()
    near(seen[2], grad(loss(*by_loop(layer, x, h)), layer.U_z)[0])


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint(reentrant: bool) -> None:
    layer, (x, h) = make(), sequences()
    with only_kernels():
        results: Any = checkpoint(lambda x, h: layer(x, h, lengths=RAGGED), x, h, use_reentrant=reentrant)
        loss(*results).backward()
    found = [tensor.grad for tensor in (x, h, *layer.parameters())]
    near(found, list(grad(loss(*by_loop(layer, x, h, RAGGED)), [x, h, *layer.parameters()])))


def test_saved_tensors_may_live_elsewhere() -> None:
    layer, (x, h) = make(), sequences()

    def unpack(file: io.BytesIO) -> Any:
        file.seek(0)
        return torch.load(file)

    def pack(tensor: Tensor) -> io.BytesIO:
        file = io.BytesIO()
        torch.save(tensor.detach(), file)
        return file

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        total = loss(*layer(x, h))
    same(grad(total, [x, h, layer.U_z]), grad(loss(*layer(x, h)), [x, h, layer.U_z]))


def test_inference_mode() -> None:
    layer, (x, h) = make(), sequences()
    with torch.inference_mode(), only_kernels():
        found = layer(x, h)
    assert found[0].is_inference()
    near(tuple(value.clone() for value in found), tuple(value.detach() for value in by_loop(layer, x, h)))


def test_a_short_way_to_the_kernel() -> None:
    """A stack trace from a stack to the kernel: layer, stack, layer of the stack, runner, call, kernel and its run."""
    stack, ways = unspool.nn.Stack("gru", 3, 4, num_layers=2), []
    run = engine.Kernel._run

    def watch(self: engine.Kernel, direction: str, *arguments: Any) -> None:
        folder = str(Path(unspool.nn.__file__).parent.parent)
        ways.append([frame.name for frame in traceback.extract_stack() if frame.filename.startswith(folder)])
        run(self, direction, *arguments)

    with patch.object(engine.Kernel, "_run", watch):
        stack(torch.randn(5, 2, 3))
    assert ways == [["forward", "run", "run", "run", "forward", "forward"]] * 2  # and `_run`, here replaced


# Further derivatives and function transforms


@pytest.mark.parametrize("lengths", [None, (2, 0)], ids=["full", "ragged"])
def test_second_derivatives(lengths: tuple[int, ...] | None) -> None:
    layer, x, h = make(reverse=lengths is not None), draw(2, 2, 3), draw(2, 4, seed=2)
    names = ["W_n", "U_z", "b_r"]

    def run(x: Tensor, h: Tensor, *weights: Tensor) -> Any:
        return functional_call(layer, dict(zip(names, weights, strict=True)), (x, h), {"lengths": lengths})

    inputs = (x, h, *(getattr(layer, name) for name in names))
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)


def test_second_derivatives_in_place_of_torch() -> None:
    """A penalty on the gradient, as in training; torch.nn is the oracle."""
    theirs = nn.LSTM(3, 4, 2, bidirectional=True, dtype=torch.float64)
    mine = unspool.nn.LSTM(3, 4, 2, bidirectional=True, dtype=torch.float64)
    mine.load_state_dict(theirs.state_dict())
    x, found = draw(3, 2, 3), []
    for layer in (mine, theirs):
        (slope,) = grad(loss(layer(x)[0]), x, create_graph=True)
        found.append(grad(slope.square().sum(), [x, *layer.parameters()]))
    near(*found)


def test_batched_gradients() -> None:
    layer, (x, h) = make(), sequences()
    into = [x, h, *layer.parameters()]
    slopes = draw(3, 5, 4, 4, seed=3, wanted=False)
    output, _ = layer(x, h, lengths=RAGGED)
    found = grad(output, into, slopes, is_grads_batched=True)
    expected, _ = by_loop(layer, x, h, RAGGED)
    each = [grad(expected, into, slope, retain_graph=True) for slope in slopes]
    near(found, tuple(map(torch.stack, zip(*each, strict=True))))


def test_vmap_over_inputs() -> None:
    layer = make()
    x, h = draw(6, 5, 4, 3, wanted=False), draw(6, 4, 4, seed=2, wanted=False)
    found = vmap(lambda x, h: layer(x, h))(x, h)
    with only_kernels():
        each = [layer(*pair) for pair in zip(x, h, strict=True)]
    near(found, tuple(map(torch.stack, zip(*each, strict=True))))


def test_vmap_over_parameters() -> None:
    layers, (x, h) = [make(seed=seed) for seed in range(3)], sequences()
    parameters, _ = stack_module_state(layers)
    found = vmap(lambda p: functional_call(layers[0], p, (x, h)))(parameters)
    with only_kernels():
        each = [layer(x, h) for layer in layers]
    near(found, tuple(map(torch.stack, zip(*each, strict=True))))


def test_gradients_by_row() -> None:
    """vmap of grad: what a private or a curious optimizer asks for."""
    layer, (x, h) = make(), sequences(wanted=False)
    parameters: dict[str, Tensor] = dict(layer.named_parameters())

    def of_row(parameters: dict[str, Tensor], x: Tensor, h: Tensor) -> Tensor:
        return loss(*functional_call(layer, parameters, (x, h)))

    found = vmap(torch.func.grad(of_row), (None, 1, 0))(parameters, x, h)
    for row in range(4):
        total = loss(*by_loop(layer, x[:, row : row + 1], h[row : row + 1]))
        each = dict(zip(parameters, grad(total, list(parameters.values())), strict=True))
        near({name: value[row] for name, value in found.items()}, each)


@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_jacobians(transform: Any) -> None:
    layer, (x, h) = make(), sequences()
    expected = torch.autograd.functional.jacobian(lambda x: by_loop(layer, x, h)[0], x)
    near(transform(lambda x: layer(x, h)[0])(x).detach(), expected)


def test_forward_mode() -> None:
    layer, (x, h) = make(), sequences()
    tangents = draw(5, 4, 3, seed=3, wanted=False), draw(4, 4, seed=4, wanted=False)
    expected = torch.autograd.functional.jvp(lambda x, h: by_loop(layer, x, h), (x, h), tangents)
    near(jvp(lambda x, h: layer(x, h), (x, h), tangents), expected)
    with forward_ad.dual_level():
        results = layer(*(forward_ad.make_dual(*pair) for pair in zip((x, h), tangents, strict=True)))
        parts = [forward_ad.unpack_dual(result) for result in results]
    near(tuple(part.tangent for part in parts), expected[1])


def test_recorded_operations() -> None:
    layer, given = make(), sequences(wanted=False)
    run = make_fx(lambda x, h: layer(x, h))(*given)
    with torch.no_grad():
        layer.U_z.mul_(2)  # the tensor is recorded, not its values
    other = draw(5, 4, 3, seed=9), draw(4, 4, seed=10)
    near(tuple(run(*other)), by_loop(layer, *other))
