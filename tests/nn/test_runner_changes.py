"""A kernel around which things change: weights, layouts, dtypes, copies, threads and processes."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
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
    trained,
)
from torch import Tensor, nn
from torch.autograd import grad
from torch.nn.utils import parametrizations, parametrize, prune

import unspool
from unspool import engine
from unspool.errors import ShapeError, UnspoolError
from unspool.nn import Recurrent

pytestmark = KERNELS


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


# Weights that change, and tensors laid out otherwise


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def _optimize(layer: nn.Module, name: str) -> None:
    getattr(layer, name).square().sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.1).step()


def _normalise(layer: nn.Module, name: str) -> None:
    normalised: Any = parametrizations.weight_norm(layer, name)
    normalised.parametrizations[name].original0.data.mul_(3)


def _turn(layer: nn.Module, name: str) -> None:
    """Every second column of a transposed copy of twice the weight."""
    wide = torch.stack([2 * getattr(layer, name).detach()] * 2, -1).flatten(1)
    setattr(layer, name, nn.Parameter(wide.T.contiguous().T[:, ::2]))


CHANGES: dict[str, Callable[[nn.Module, str], object]] = {
    "mul_": lambda layer, name: getattr(layer, name).detach().mul_(2),
    "data, a part": lambda layer, name: getattr(layer, name).data[1].fill_(0.3),
    "data, replaced": lambda layer, name: setattr(getattr(layer, name), "data", 2 * getattr(layer, name).data),
    "optimizer": _optimize,
    "load_state_dict": lambda layer, name: layer.load_state_dict({k: 2 * v for k, v in layer.state_dict().items()}),
    "load_state_dict, assigned": lambda layer, name: layer.load_state_dict(
        {k: 2 * v for k, v in layer.state_dict().items()}, assign=True
    ),
    "replaced": lambda layer, name: setattr(layer, name, nn.Parameter(2 * getattr(layer, name).detach())),
    "not contiguous": _turn,
    "expanded": lambda layer, name: setattr(
        layer, name, nn.Parameter(getattr(layer, name).detach()[:1].clone().expand_as(getattr(layer, name)))
    ),
    "weight_norm": _normalise,
    "parametrised": lambda layer, name: parametrize.register_parametrization(layer, name, Doubled()),
    "pruned": lambda layer, name: prune.l1_unstructured(layer, name, amount=0.5),
}


@each_dtype
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_weight_is_seen_by_the_next_call(name: str, dtype: torch.dtype) -> None:
    layer, (x, h) = make(dtype), sequences(dtype)
    before, _ = layer(x, h)
    CHANGES[name](layer, "U_z")
    with only_kernels():
        found = layer(x, h)
        slopes = grad(loss(*found), [x, h, *layer.parameters()], retain_graph=True)
    expected = by_loop(layer, x, h)
    assert (expected[0] - before).abs().max() > 1e-3
    near(found, expected)
    near(slopes, grad(loss(*expected), [x, h, *layer.parameters()]))


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_weight_is_seen_in_place_of_torch(name: str) -> None:
    torch.manual_seed(0)
    layer, theirs = unspool.nn.LSTM(3, 4, dtype=torch.float64), nn.LSTM(3, 4, dtype=torch.float64)
    x = draw(5, 4, 3)
    before, _ = layer(x)
    CHANGES[name](layer, "weight_hh_l0")
    with only_kernels():
        output, state = layer(x)
        (slope,) = grad(loss(output, *state), x)
    theirs.load_state_dict({weight: getattr(layer, weight) for weight in theirs.state_dict()})
    expected, final = theirs(x)
    assert (expected - before).abs().max() > 1e-3
    near((output, state, slope), (expected, final, *grad(loss(expected, *final), x)))


def test_a_replaced_weight_that_does_not_fit() -> None:
    layer, (x, h) = make(), sequences()
    layer(x, h)
    layer.U_z.data = layer.U_z.data[:3].clone()
    with pytest.raises(ShapeError, match="U_z.*is not of shape"):
        layer(x, h)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "every second": lambda x: torch.stack([x, x * 0], -1).flatten(-2)[..., ::2],
    "off the alignment": lambda x: torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape),
    "expanded over rows": lambda x: x[..., :1, :].expand_as(x),
    "expanded over all": lambda x: x.flatten()[0].expand_as(x),
    "negated in name": lambda x: torch.complex(x, -x).conj().imag,
}


@each_dtype
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str, dtype: torch.dtype) -> None:
    layer, (x, h) = make(dtype), sequences(dtype)
    for lengths in (None, RAGGED):
        given = LAYOUTS[name](x), LAYOUTS[name](h)
        assert name == "off the alignment" or not given[0].is_contiguous() or given[0].is_neg()
        found, expected = layer(*given, lengths=lengths), by_loop(layer, *given, lengths)
        near(found, expected)
        near(grad(loss(*found), [x, h], retain_graph=True), grad(loss(*expected), [x, h]))


def test_gradients_laid_out_otherwise() -> None:
    layer, (x, h) = make(), sequences()
    (output, _), (expected, _) = layer(x, h), by_loop(layer, x, h)
    for name, turn in LAYOUTS.items():
        slope = turn(draw(5, 4, 4, seed=3, wanted=False))
        found = grad(output, [x, h, layer.W_n], slope, retain_graph=True)
        assert all(value.is_contiguous() for value in found), name
        near(found, grad(expected, [x, h, layer.W_n], slope, retain_graph=True))


def _freed(tensor: Tensor) -> Tensor:
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize("where", ["x", "weight"])
@pytest.mark.parametrize("what", ["zeros", "freed"])
def test_tensors_without_memory(what: str, where: str) -> None:
    """torch's zero tensors are zero, freed memory is refused. In a process of its own, which a mistake would kill."""
    layer, (x, h) = make(), sequences(wanted=False)

    def work() -> bool:
        def empty(like: Tensor) -> Tensor:
            return torch._efficientzerotensor(like.shape, dtype=like.dtype) if what == "zeros" else _freed(like.clone())

        weight = layer.W_r.detach().clone()
        layer.W_r.data = empty(weight) if where == "weight" else weight
        try:
            output, _ = layer(empty(x) if where == "x" else x, h)
        except UnspoolError:
            return what == "freed"
        layer.W_r.data = weight * (where != "weight")
        near(output, by_loop(layer, x * (where != "x"), h)[0])
        return what == "zeros"

    assert in_child(work)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("where", ["x", "weight"])
def test_memory_freed_between_calls_is_refused(where: str, training: bool) -> None:
    """Small calls skip what was checked before; this may have changed since."""
    layer, x = unspool.nn.GRU(3, 4), torch.randn(5, 2, 3)

    def work() -> bool:
        with torch.set_grad_enabled(training):
            for _ in range(3):
                layer(x)
            _freed(x if where == "x" else next(layer.parameters()).data)
            with pytest.raises(UnspoolError, match="freed"):
                layer(x)
        return True

    assert in_child(work)


# Autocast, copies


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(dtype: torch.dtype) -> None:
    layer, (x, h) = make(torch.float32), sequences(torch.float32)
    plain = layer(x, h)
    with torch.autocast("cpu", dtype):
        assert layer.engine == "eager: autocast is active"
        found, expected = layer(x, h), by_loop(layer, x, h)
    same(found, expected)
    torch.testing.assert_close(found, plain, rtol=0, atol=0.02, check_dtype=False)
    same(grad(loss(*found), [x, h, layer.U_z]), grad(loss(*expected), [x, h, layer.U_z]))
    with torch.autocast("cpu", dtype, enabled=False), only_kernels():
        same(layer(x, h), plain)


COPIES: dict[str, Callable[[nn.Module], Any]] = {
    "pickle": lambda layer: pickle.loads(pickle.dumps(layer)),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("kind", [partial(Recurrent, "gru"), unspool.nn.LSTM], ids=["Recurrent", "LSTM"])
@pytest.mark.parametrize("name", COPIES)
def test_copies_after_use(name: str, kind: Callable[..., nn.Module]) -> None:
    torch.manual_seed(0)
    layer, x = kind(3, 4, dtype=torch.float64), draw(5, 4, 3)
    output, _ = layer(x)
    output.sum().backward()
    twin = COPIES[name](layer)
    with only_kernels():
        same(twin(x)[0], output)
    mine, other = [{p.untyped_storage().data_ptr() for p in one.parameters()} for one in (layer, twin)]
    assert not mine & other
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.mul_(2)
    same(layer(x)[0], output)
    assert (twin(x)[0] - output).abs().max() > 1e-3


# Threads, processes, bits


def in_child(work: Callable[[], bool]) -> bool:
    """Whether a forked process does its work; it dies alone where memory is read that is not there."""
    process = get_context("fork").Process(target=lambda: os._exit(0 if work() else 1), daemon=True)
    process.start()
    process.join(20)
    return process.exitcode == 0


def wide() -> tuple[Any, tuple[Tensor, Tensor, tuple[int, ...]]]:
    """A layer and sequences with rows and work enough for every thread."""
    torch.manual_seed(0)
    layer = Recurrent("gru", 3, 32, dtype=torch.float64)
    assert layer.engine.startswith("kernel")
    return layer, (draw(20, 9, 3), draw(9, 32, seed=2), (13, 20, 0, 17, 20, 1, 20, 19, 20))


def equal(found: list[Tensor], expected: list[Tensor]) -> bool:
    return all(map(torch.equal, found, expected))


def test_same_bits_every_time(threads: int) -> None:
    layer, given = wide()
    with only_kernels():
        first = trained(layer, *given)
        assert all(equal(trained(layer, *given), first) for _ in range(20))
    near(first[:2], list(by_loop(layer, *given)))


def test_same_bits_in_many_threads_at_once(threads: int) -> None:
    layer, given = wide()

    def work(_: int) -> bool:
        return all(equal(trained(layer, *given), alone) for _ in range(10))

    alone = trained(layer, *given)
    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(12)))


def test_same_bits_after_a_fork(threads: int) -> None:
    layer, given = wide()
    here = trained(layer, *given)
    assert in_child(lambda: equal(trained(layer, *given), here))
    assert equal(trained(layer, *given), here)


def test_the_number_of_threads_is_torchs(threads: int) -> None:
    layer, given = wide()
    seen: list[int] = []
    ways = {name: getattr(engine.Kernel, name) for name in ("forward", "backward")}

    def watched(name: str) -> Callable[..., Any]:
        def watch(*args: Any, **kwargs: Any) -> Any:
            seen.append(inspect.signature(ways[name]).bind(*args, **kwargs).arguments["threads"])
            return ways[name](*args, **kwargs)

        return watch

    replaced: Any = {name: watched(name) for name in ways}
    with patch.multiple(engine.Kernel, **replaced):
        trained(layer, *given)
        torch.set_num_threads(3)
        layer(*given[:2])
    assert seen == [threads, threads, 3]
