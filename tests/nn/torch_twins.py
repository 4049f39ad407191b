"""torch.nn's recurrent layers beside ours, with the same parameters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from unspool.nn.rnn import GRU, LSTM, RNN

KINDS: dict[str, tuple[Any, Any]] = {
    "RNN": (torch.nn.RNN, RNN),
    "GRU": (torch.nn.GRU, GRU),
    "LSTM": (torch.nn.LSTM, LSTM),
}
each_kind = pytest.mark.parametrize("kind", list(KINDS))


def twins(kind: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """torch.nn's layer and ours, made from the same seed."""
    made = []
    for make in KINDS[kind]:
        torch.manual_seed(0)
        made.append(make(*args, **kwargs))
    return made[0], made[1]


def flat(tree: Any) -> list[Tensor]:
    """The tensors of a layer's input or result."""
    if isinstance(tree, PackedSequence):
        return [tree.data]
    if isinstance(tree, Tensor):
        return [tree]
    return [leaf for part in tree for leaf in flat(part)]


def states(layer: Any, rows: int | None, dtype: torch.dtype = torch.float32) -> Any:
    """Initial states that want gradients."""
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    batch = () if rows is None else (rows,)
    h = torch.randn(count, *batch, layer.proj_size or layer.hidden_size, dtype=dtype, requires_grad=True)
    c = torch.randn(count, *batch, layer.hidden_size, dtype=dtype, requires_grad=True)
    return (h, c) if layer.mode == "LSTM" else h


def assert_alike(ours: Any, theirs: Any, atol: float = 1e-6) -> None:
    """Results with the same tensors, element types included."""
    for mine, other in zip(flat(ours), flat(theirs), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=atol)
