"""Bad input to a layer: an error before anything is computed, saying the argument, its value and the remedy."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import zeros
from torch.nn.utils.rnn import pack_padded_sequence

from unspool.errors import ArgumentError, ArgumentTypeError, DeviceError, DTypeError, ShapeError
from unspool.nn.bidirectional import Bidirectional
from unspool.nn.layer import Layer
from unspool.nn.recurrent import Recurrent
from unspool.nn.regularized import Rates
from unspool.nn.rnn import GRU, LSTM
from unspool.nn.stack import Stack
from unspool.nn.time_delay import TimeDelay

pytestmark = pytest.mark.usefixtures("engine")

X = zeros(5, 2, 3)
H = zeros(2, 4)
LAYERS: dict[str, Callable[[], Layer]] = {
    "recurrent": lambda: Recurrent("lstm", 3, 4),
    "bidirectional": lambda: Bidirectional("lstm", 3, 4),
    "stack": lambda: Stack("lstm", 3, 4, 2),
    "time-delay": lambda: TimeDelay(Recurrent("lstm", 3, 4), 2),
}

INPUTS: dict[str, tuple[Any, type[ArgumentError], str]] = {
    "1-D": (X[0, 0], ShapeError, r"`x` \(=\(3,\)\) has 1 dimension\(s\). Give \(time, batch, features\)"),
    "4-D": (X[None], ShapeError, r"`x` \(=\(1, 5, 2, 3\)\) has 4 dimension"),
    "0-D": (zeros(()), ShapeError, r"`x` \(=\(\)\) has 0 dimension"),
    "width": (zeros(5, 2, 7), ShapeError, r"`x` \(=\(5, 2, 7\)\) is 7 wide where input_size is 3. Change one"),
    "width, unbatched": (zeros(5, 2), ShapeError, "is 2 wide where input_size is 3"),
    "int": (X.long(), DTypeError, r"`x` has dtype torch.int64 where the layer has torch.float32. Convert it by x.to\("),
    "bool": (X.bool(), DTypeError, "torch.bool"),
    "float64": (X.double(), DTypeError, r"`x` has dtype torch.float64 .*layer by layer.to\(dtype\)"),
    "complex": (X.to(torch.cfloat), DTypeError, "torch.complex64"),
    "device": (X.to("meta"), DeviceError, r"`x` is on meta where the layer is on cpu. Move it by x.to\('cpu'\)"),
    "numpy": (X.numpy(), ArgumentTypeError, "`x` .*is not a torch tensor. Convert it by torch.as_tensor"),
    "list": ([[1.0]], ArgumentTypeError, r"`x` \(=\[\[1.0\]\]\) is not a torch tensor"),
    "none": (None, ArgumentTypeError, r"`x` \(=None\)"),
    "packed": (
        pack_padded_sequence(X, torch.tensor([5, 4])),
        ArgumentTypeError,
        "`x` is a PackedSequence.*pad_packed_sequence.*`lengths=`",
    ),
}

LENGTHS: dict[str, tuple[Any, type[ArgumentError], str]] = {
    "too long": ([5, 6], ArgumentError, r"`lengths` \(=\[5, 6\]\) are not all from 0 to 5. x has that many steps"),
    "negative": ([-1, 2], ArgumentError, r"`lengths` \(=\[-1, 2\]\) are not all from 0 to 5"),
    "too many": ([1, 2, 3], ShapeError, r"`lengths` \(=\[1, 2, 3\]\) are not 2 numbers, one per sequence"),
    "too few": ([1], ShapeError, "are not 2 numbers"),
    "none at all": ([], ShapeError, "are not 2 numbers"),
    "one number": (3, ShapeError, r"`lengths` \(=3\) are not 2 numbers"),
    "2-D": ([[1], [2]], ShapeError, "are not 2 numbers"),
    "2-D, of the right count": (torch.tensor([[1, 2]]), ShapeError, "are not 2 numbers"),
    "float": ([1.0, 2.0], DTypeError, r"`lengths` \(=\[1.0, 2.0\]\) are of dtype torch.float32. Give whole numbers"),
    "float tensor": (torch.ones(2), DTypeError, "torch.float32"),
    "nan": ([float("nan"), 1], DTypeError, "`lengths`"),
    "bool": ([True, False], DTypeError, "torch.bool"),
    "complex": (torch.ones(2, dtype=torch.cfloat), DTypeError, "torch.complex64"),
    "text": (["a", "b"], ArgumentTypeError, r"`lengths` \(=\['a', 'b'\]\) are not numbers"),
    "with a none": ([1, None], ArgumentTypeError, "`lengths`"),
    "ragged": ([[1], [1, 2]], ArgumentTypeError, "`lengths`"),
    "a dict": ({1: 2}, ArgumentTypeError, "`lengths`"),
    "huge": ([2**70, 1], ArgumentError, "`lengths`"),
    "huge unsigned": (np.array([2**63 + 5, 1], np.uint64), ArgumentError, "`lengths`"),
}

STATES: dict[str, tuple[Any, type[ArgumentError], str]] = {
    "a tensor for two": (
        H,
        ShapeError,
        "`state` must be a tuple of 2 states, got Tensor. Nest them as the layer",
    ),
    "one of two": ((H,), ShapeError, "`state` must be a tuple of 2 states, got 1 of them"),
    "three of two": ((H, H, H), ShapeError, "got 3 of them"),
    "rows": ((H, zeros(3, 4)), ShapeError, r"`state\[1\]` \(=\(3, 4\)\) is not of shape \(2, 4\). Reshape it"),
    "width": ((zeros(2, 5), H), ShapeError, r"`state\[0\]` \(=\(2, 5\)\) is not of shape \(2, 4\)"),
    "rank": ((H[None], H), ShapeError, r"`state\[0\]` \(=\(1, 2, 4\)\)"),
    "broadcastable": ((zeros(1, 4), H), ShapeError, r"`state\[0\]` \(=\(1, 4\)\)"),
    "unbatched": ((H[0], H[0]), ShapeError, r"`state\[0\]` \(=\(4,\)\)"),
    "dtype": ((H, H.double()), DTypeError, r"`state\[1\]` has dtype torch.float64 where the layer has torch.float32"),
    "int": ((H.long(), H), DTypeError, r"`state\[0\]` has dtype torch.int64"),
    "device": ((H, H.to("meta")), DeviceError, r"`state\[1\]` is on meta"),
    "none inside": (
        (H, None),
        ArgumentTypeError,
        r"`state\[1\]` \(=None\) is not a tensor. Give a tensor of shape \(2, 4\)",
    ),
    "numpy": ((H.numpy(), H), ArgumentTypeError, r"`state\[0\]` .*is not a tensor"),
    "too deep": (((H, H), H), ArgumentTypeError, r"`state\[0\]` .*is not a tensor"),
    "a number": (0, ShapeError, "got int"),
    "a dict": ({"h": H, "c": H}, ShapeError, "got dict"),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize(("x", "kind", "message"), INPUTS.values(), ids=INPUTS)
def test_input(make: Callable[[], Layer], x: Any, kind: type[ArgumentError], message: str) -> None:
    with pytest.raises(kind, match=f"(?s){message}"):
        make()(x)


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize(("lengths", "kind", "message"), LENGTHS.values(), ids=LENGTHS)
def test_lengths(make: Callable[[], Layer], lengths: Any, kind: type[ArgumentError], message: str) -> None:
    with pytest.raises(kind, match=f"(?s){message}"):
        make()(X, lengths=lengths)


@pytest.mark.parametrize("make", [LAYERS["recurrent"], LAYERS["time-delay"]], ids=["recurrent", "time-delay"])
@pytest.mark.parametrize(("state", "kind", "message"), STATES.values(), ids=STATES)
def test_state(make: Callable[[], Layer], state: Any, kind: type[ArgumentError], message: str) -> None:
    with pytest.raises(kind, match=f"(?s){message}"):
        make()(X, state)


def test_state_of_one() -> None:
    layer = Recurrent("gru", 3, 4)
    with pytest.raises(ArgumentTypeError, match=r"(?s)`state` .*is not a tensor. Give a tensor of shape \(2, 4\)"):
        layer(X, (H,))
    with pytest.raises(ShapeError, match=r"`state` \(=\(2, 5\)\) is not of shape \(2, 4\)"):
        layer(X, zeros(2, 5))


def test_state_unbatched() -> None:
    with pytest.raises(ShapeError, match=r"`state` \(=.*5,?\)\) is not of shape \(.*4,?\)"):
        Recurrent("gru", 3, 4)(X[:, 0], zeros(5))
    with pytest.raises(ShapeError, match=r"`state` \(=.*1, 4\)\) is not of shape \(.*4,?\)"):
        Recurrent("gru", 3, 4)(X[:, 0], zeros(1, 4))


def test_state_of_nested_layers() -> None:
    with pytest.raises(ShapeError, match=r"`state\[1\]\[0\]` \(=\(2, 5\)\) is not of shape \(2, 4\)"):
        Bidirectional("lstm", 3, 4)(X, ((H, H), (zeros(2, 5), H)))
    with pytest.raises(ShapeError, match=r"`state` must be a tuple of 2 states, got 4 of them"):
        Bidirectional("lstm", 3, 4)(X, (H, H, H, H))
    with pytest.raises(ShapeError, match=r"`state\[1\]` \(=\(2, 4\)\) is not of shape \(2, 6\)"):
        Stack("gru", 3, [4, 6])(X, [H, H])


def test_batch_first_counts_rows_where_they_are() -> None:
    layer = Recurrent("gru", 3, 4, batch_first=True)
    with pytest.raises(ShapeError, match="are not 5 numbers"):
        layer(X, lengths=[1, 2])
    with pytest.raises(ArgumentError, match="are not all from 0 to 2"):
        layer(X, lengths=[1, 2, 3, 1, 1])


def test_the_errors_are_those_that_torchs_users_catch() -> None:
    layer = Recurrent("gru", 3, 4)
    with pytest.raises(RuntimeError):
        layer(zeros(5, 2, 7))
    with pytest.raises(ValueError, match="lengths"):
        layer(X, lengths=[9, 9])
    with pytest.raises(TypeError):
        layer([1.0])


def test_a_layer_on_meta_computes_shapes() -> None:
    layer = Recurrent("lstm", 3, 4, device="meta")
    output, (h, c) = layer(X.to("meta"))
    assert output.device.type == h.device.type == c.device.type == "meta"
    assert output.shape == (5, 2, 4)
    with pytest.raises(DeviceError, match="`x` is on cpu where the layer is on meta"):
        layer(X)


# Attributes that were replaced after the layer was made


def changed(layer: Any, /, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(layer, name, value)
    return layer


def stacked_on_itself() -> Any:
    stack = stacked()
    stack.layers[1] = stack
    return stack


def delayed() -> Any:
    return TimeDelay(Recurrent("gru", 3, 4), 1)


def stacked() -> Any:
    return Stack("gru", 3, 4, 2)


def gru() -> Any:
    return Recurrent("gru", 3, 4)


REPLACED: dict[str, tuple[Callable[[], Any], str]] = {
    "reverse of text": (lambda: changed(gru(), reverse="yes"), "`reverse` .='yes'. is neither True nor False"),
    "reverse of None": (lambda: changed(gru(), reverse=None), "`reverse`"),
    "sizes as text": (lambda: copy.deepcopy(changed(gru(), hidden_size="400")), "`hidden_size` .='400'. is of type"),
    "negative sizes": (lambda: copy.deepcopy(changed(gru(), hidden_size=-1)), "`hidden_size` .=-1. is not positive"),
    "sizes beyond memory": (lambda: copy.deepcopy(changed(gru(), hidden_size=10**30)), "`hidden_size`.*memory"),
    "negative delay": (lambda: changed(delayed(), delay=-1), "`delay` .=-1. is negative"),
    "half a delay": (lambda: changed(delayed(), delay=1.5), "`delay` .=1.5. is of type float"),
    "delay beyond memory": (lambda: changed(delayed(), delay=10**12), "`delay`.* needs .* GiB"),
    "dropout of 2": (lambda: changed(stacked(), dropout=[2.0, 0.0]), "`dropout` .=2.0. is not a probability"),
    "dropout of NaN": (lambda: changed(stacked(), dropout=[math.nan, 0.0]), "`dropout` .=nan. is not a probability"),
    "rates of numbers": (lambda: changed(stacked(), rates=[1, 2]), "`rates`.*is not a list of Rates"),
    "rates of None": (lambda: changed(stacked(), rates=None), "`rates`.*is not a list of Rates"),
    "text of rates": (lambda: repr(changed(stacked(), rates=[1, 2])), "`rates`.*is not a list of Rates"),
    "zoneout of NaN": (lambda: Rates(zoneout=math.nan), "`zoneout` .=nan. is not a probability"),
    "negative dropout": (lambda: Rates(recurrent_dropout=-3), "`recurrent_dropout` .=-3. is not a probability"),
    "no rates": (lambda: gru().regularize(3), "`rates` .=3. is not a Rates"),
    "delay of itself": (lambda: changed(layer := delayed(), layer=layer), "TimeDelay is a part of itself"),
    "stack in itself": (stacked_on_itself, "Stack is a part of itself"),
    "a list of None": (lambda: changed(LSTM(3, 4), _flat_weights=None), "`_flat_weights`"),
    "no layers": (lambda: changed(LSTM(3, 4), _all_weights=[], num_layers=0), "`num_layers`"),
    "text in a drop-in": (lambda: copy.deepcopy(changed(LSTM(3, 4), hidden_size="400")), "`hidden_size`"),
    "below zero in a drop-in": (lambda: copy.deepcopy(changed(GRU(3, 4), hidden_size=-1)), "`hidden_size`"),
}


@pytest.mark.parametrize(("make", "said"), REPLACED.values(), ids=list(REPLACED))
def test_replaced_attributes_are_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        make()(torch.randn(5, 2, 3))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Recurrent("lstm", 1, 10**23), "`hidden_size`.* needs more memory than any machine has"),
        (lambda: Recurrent("lstm", 1, 2**20), r"`hidden_size` \(=1048576\) needs 16,384.0 GiB"),
        (lambda: Recurrent("elman", 2**60, 1), "`input_size`.* needs 4,294,967,296.0 GiB"),
        (lambda: Recurrent("elman", 2**60, 2**20, device="meta"), "`input_size`.* needs"),
        (lambda: Stack("lstm", 1, 1, 2**40), "`num_layers`.* is more than 10000"),
        (lambda: Recurrent("lstm", 1, 10**400), "`hidden_size`.* needs more memory"),
    ],
)
def test_layers_that_memory_cannot_hold_are_not_begun(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        make()


def test_a_large_layer_without_memory_can_be_made() -> None:
    assert Recurrent("elman", 1, 2**20, device="meta").cell_parameters()["U_h"].numel() == 2**40
