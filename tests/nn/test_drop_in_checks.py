"""No tensor that does not fit, or has no memory, reaches torch.nn's forward; no changed attribute is ignored."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.engine.agreement import needs_compiler
from tests.nn.torch_twins import KINDS, each_kind, flat, states, twins
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import unspool
from unspool.errors import ArgumentError, ShapeError, UnknownNameError, UnspoolError
from unspool.nn.drop_in_checks import weight_shapes

NAMES = ("weight_ih_l0", "weight_hh_l1", "bias_ih_l0", "bias_hh_l1_reverse")


def free(tensor: Tensor) -> None:
    tensor.data.untyped_storage().resize_(0)


def halve(layer: nn.Module, name: str) -> None:
    setattr(layer, name, nn.Parameter(getattr(layer, name).detach()[::2].clone()))


#: How torch.nn's forward is reached: the dtype, whether autocast is on, and whether kernels are off.
ROUTES = {
    "bfloat16": (torch.bfloat16, False, False),
    "float16": (torch.float16, False, False),
    "autocast": (torch.float32, True, False),
    "no kernels": (torch.float32, False, True),
}


@pytest.fixture(params=ROUTES)
def dtype(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The dtype of a layer whose calls torch.nn's forward runs."""
    dtype, autocast, off = ROUTES[request.param]
    if off:
        monkeypatch.setenv("UNSPOOL_ENGINE", "off")
    with torch.autocast("cpu", torch.bfloat16) if autocast else contextlib.nullcontext():
        yield dtype


def calls(layer: Any, dtype: torch.dtype) -> list[Callable[[], Any]]:
    """Calls with a padded batch, one step, lengths, a packed batch and an initial state."""
    x = torch.randn(5, 2, 3, dtype=dtype)
    start = states(layer, 2, dtype)
    return [
        lambda: layer(x),
        lambda: layer(x[:1]),
        lambda: layer(x, lengths=[5, 2]),
        lambda: layer(pack_padded_sequence(x, torch.tensor([5, 2]))),
        lambda: layer(x, start),
        lambda: layer(x[:, 0]),
    ]


@each_kind
@pytest.mark.parametrize("spoil", [lambda layer, name: free(getattr(layer, name)), halve], ids=["freed", "halved"])
@pytest.mark.parametrize("name", NAMES)
def test_weights_of_torchs_own_forward(kind: str, spoil: Any, name: str, dtype: torch.dtype) -> None:
    layer = KINDS[kind][1](3, 64, num_layers=2, bidirectional=True).to(dtype)
    made = calls(layer, dtype)
    for call in made:
        assert all(part.isfinite().all() for part in flat(call()))
    spoil(layer, name)
    for call in made:
        with pytest.raises(ArgumentError, match=rf"`{name}` .*(no memory|not of shape)"):
            call()


@each_kind
def test_inputs_and_states_without_memory(kind: str, dtype: torch.dtype) -> None:
    layer = KINDS[kind][1](3, 64).to(dtype)
    for steps in (1, 5):
        x = torch.randn(steps, 2, 3, dtype=dtype)
        start = states(layer, 2, dtype)
        free(flat(start)[-1])
        with pytest.raises(ArgumentError, match="`hx` .*no memory"):
            layer(x, start)
        free(x)
        with pytest.raises(ArgumentError, match="`input` .*no memory"):
            layer(x)


@each_kind
@pytest.mark.parametrize("batched", [False, True])
def test_views_are_made_of_what_has_memory(kind: str, batched: bool) -> None:
    layer = KINDS[kind][1](3, 4, batch_first=True)
    x, start = torch.randn(2, 5, 3) if batched else torch.randn(5, 3), states(layer, 2 if batched else None)
    packed = PackedSequence(torch.randn(2, 3), torch.tensor([1, 1]))
    for tensor in (x, flat(start)[-1], packed.data):
        free(tensor)
    with pytest.raises(ArgumentError, match="`input` .*no memory"):
        layer(x)
    with pytest.raises(ArgumentError, match="`hx` .*no memory"):
        layer(torch.randn(2, 5, 3) if batched else torch.randn(5, 3), start)
    with pytest.raises(ArgumentError, match="`input.data` .*no memory"):
        layer(packed)


@each_kind
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_sparse_inputs_and_states(kind: str, mode: Any, batched: bool) -> None:
    layer = KINDS[kind][1](3, 4, batch_first=True)
    x = torch.randn(2, 5, 3) if batched else torch.randn(5, 3)
    start = layer(x)[1]
    sparse = tuple(part.to_sparse() for part in start) if kind == "LSTM" else start.to_sparse()
    with mode():
        with pytest.raises(ArgumentError, match="`input` is of layout torch.sparse_coo"):
            layer(x.to_sparse())
        with pytest.raises(ArgumentError, match="`hx` is of layout torch.sparse_coo"):
            layer(x, sparse)
        packed = PackedSequence(torch.randn(2, 3).to_sparse(), torch.tensor([1, 1]))
        with pytest.raises(ArgumentError, match="`input.data` is of layout torch.sparse_coo"):
            layer(packed)


@each_kind
@pytest.mark.parametrize("steps", [1, 5])
def test_a_changed_hidden_size(kind: str, steps: int, dtype: torch.dtype) -> None:
    layer = KINDS[kind][1](3, 64).to(dtype)
    layer.hidden_size = 512
    with pytest.raises(ShapeError, match="`weight_ih_l0` .*is not of shape"):
        layer(torch.randn(steps, 2, 3, dtype=dtype))


@pytest.mark.filterwarnings("ignore:.*torch.jit.*is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@each_kind
def test_traced_with_a_weight_that_is_gone(kind: str) -> None:
    layer = KINDS[kind][1](3, 4)
    free(layer.weight_hh_l0)
    with pytest.raises(ArgumentError, match="`weight_hh_l0` .*no memory"):
        torch.jit.trace(layer, torch.randn(5, 2, 3))


@each_kind
@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False}, {"num_layers": 3, "bidirectional": True}, {"proj_size": 2, "num_layers": 2}],
    ids=str,
)
def test_shapes_are_those_that_torch_makes(kind: str, options: dict[str, Any]) -> None:
    if "proj_size" in options and kind != "LSTM":
        pytest.skip("only LSTM has projections")
    theirs, ours = twins(kind, 3, 5, **options)
    given = theirs.num_layers, theirs.bidirectional, theirs.bias
    found = weight_shapes(len(ours.gates), 3, 5, theirs.proj_size, *given)
    assert list(found) == [weight.shape for weight in theirs.parameters()]


CHANGES = {"num_layers": 2, "bidirectional": True, "proj_size": 2, "bias": False}


@each_kind
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("train", [False, True], ids=["evaluation", "training"])
def test_a_changed_attribute_is_named(kind: str, name: str, steps: int, train: bool) -> None:
    layer, x = KINDS[kind][1](3, 4), torch.randn(steps, 2, 3)
    with torch.set_grad_enabled(train):
        for _ in range(3):  # so that the tensors are known to the quick kernel
            layer(x)
        setattr(layer, name, CHANGES[name])
        with pytest.raises(ArgumentError, match=f"`{name}` .*other weights than the layer has"):
            layer(x)
    with pytest.raises(UnspoolError, match=f"`{name}`"):
        torch.export.export(nn.Sequential(layer), (x,))


def test_attributes_that_were_taken_back() -> None:
    for options, name, value in (({"bidirectional": True}, "bidirectional", False), ({"proj_size": 2}, "proj_size", 0)):
        layer = unspool.nn.LSTM(3, 4, **options)
        setattr(layer, name, value)
        with pytest.raises(ArgumentError, match=f"`{name}` .*other weights"):
            layer(torch.randn(5, 2, 3))


@pytest.mark.parametrize("engine", ["on", "off"])
def test_the_nonlinearity_is_read_where_torch_reads_it(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_ENGINE", engine)
    for change in ({"mode": "RNN_RELU"}, {"nonlinearity": "relu"}):
        theirs, ours = twins("RNN", 3, 4)
        for layer in (theirs, ours):
            for name, value in change.items():
                setattr(layer, name, value)
        for steps in (1, 5):
            x = torch.randn(steps, 2, 3)
            torch.testing.assert_close(ours(x)[0], theirs(x)[0], rtol=0, atol=1e-6)
    ours.mode = "RNN"
    with pytest.raises(UnknownNameError, match="mode"):
        ours(torch.randn(5, 2, 3))


@needs_compiler
@each_kind
def test_an_output_that_is_changed_in_place_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's backward pass reads its output, as that of torch.nn's LSTM does."""
    monkeypatch.delenv("UNSPOOL_ENGINE", raising=False)
    layer = KINDS[kind][1](3, 4)
    output, _ = layer(torch.randn(5, 2, 3))
    output.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()
