"""What a drop-in refuses of a PackedSequence that was made by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import unspool
from unspool.errors import ArgumentError

RIGHT = torch.tensor([3, 2, 1])


def pack(batch_sizes: Any, *orders: Any) -> PackedSequence:
    """Six rows of data under these batch sizes; torch checks nothing of them."""
    return PackedSequence(torch.randn(6, 3), batch_sizes, *orders)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize(
    "sizes", [[3, 3, -1], [3, 3, -1, 1], [3, 2, 100], [1, 2, 3], [], [3, 3, 0], [6, 2], [3, 2]], ids=str
)
def test_batch_sizes_that_do_not_fit(kind: str, sizes: list[int]) -> None:
    layer = getattr(unspool.nn, kind)(3, 4)
    for grad in (False, True):
        with pytest.raises(ArgumentError, match="batch_sizes"), torch.set_grad_enabled(grad):
            layer(pack(torch.tensor(sizes, dtype=torch.int64)))


@pytest.mark.parametrize(
    "sizes",
    [RIGHT.float(), RIGHT.int(), RIGHT.unsqueeze(0), torch.tensor(6), RIGHT.to("meta"), RIGHT.to_sparse(), [3, 2, 1]],
    ids=["float", "int32", "2-D", "0-D", "meta", "sparse", "list"],
)
def test_batch_sizes_of_another_kind(sizes: Any) -> None:
    broken = tuple.__new__(PackedSequence, (torch.randn(6, 3), sizes, None, None))
    with pytest.raises(ArgumentError, match="batch_sizes"):
        unspool.nn.LSTM(3, 4)(broken)


@pytest.mark.parametrize("order", [[0, 1, 77], [0, 1, -1], [2, 2, 2], [0, 1], [0.0, 1.0, 2.0]], ids=str)
def test_indices_that_are_no_order_of_the_batch(order: list[float]) -> None:
    right = torch.tensor([0, 1, 2])
    for orders in ((torch.tensor(order), right), (right, torch.tensor(order))):
        broken = tuple.__new__(PackedSequence, (torch.randn(6, 3), RIGHT, *orders))
        for hx in (None, torch.randn(1, 3, 4)):
            with pytest.raises(ArgumentError, match="sorted_indices"):
                unspool.nn.GRU(3, 4)(broken, hx)


def test_what_torch_packs_is_as_in_torch() -> None:
    theirs = nn.GRU(3, 4)
    ours = unspool.nn.GRU(3, 4)
    ours.load_state_dict(theirs.state_dict())
    packed = pack_padded_sequence(torch.randn(5, 3, 3), torch.tensor([2, 5, 3]), enforce_sorted=False)
    (expected, final), (output, state) = theirs(packed), ours(packed)
    torch.testing.assert_close(output.data, expected.data)
    torch.testing.assert_close(state, final)
