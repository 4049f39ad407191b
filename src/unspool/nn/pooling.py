"""Poolings: one vector per sequence, such as a layer's output."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, ArgumentTypeError, UnknownNameError
from unspool.nn.checks import check_shape
from unspool.nn.memoryless import Memoryless


class Pooling(Memoryless):
    """The base of every pooling, called as `pooling(x, lengths=…)`: (batch, width), or, unbatched, (width,).

    x is (time, batch, width), with `batch_first` (batch, time, width), or, unbatched, (time, width). Steps beyond a
    sequence's length change nothing, whatever they hold. A sequence without steps gives zeros.

    Args:
        width: the width of x.
        batch_first: whether x is (batch, time, width).

    Example:
        >>> unspool.nn.MeanPooling(4)(torch.randn(7, 2, 4), lengths=[7, 3]).shape
        torch.Size([2, 4])
    """

    def __init__(self, width: int, *, batch_first: bool = False) -> None:
        width = check_size("width", width)
        super().__init__(width, width, batch_first)

    def extra_repr(self) -> str:
        return f"{self.input_size}"


class MeanPooling(Pooling):
    """The mean over the steps; see `Pooling` for the arguments.

    Example:
        >>> unspool.nn.MeanPooling(4)(torch.randn(7, 2, 4), lengths=[7, 3])
    """

    def read(self, x: Tensor, valid: Tensor) -> Tensor:
        return x.sum(0) / valid.sum(0).clamp_min(1)


class MaxPooling(Pooling):
    """The maximum of each unit over the steps; see `Pooling` for the arguments.

    Example:
        >>> unspool.nn.MaxPooling(4)(torch.randn(7, 2, 4), lengths=[7, 3])
    """

    def read(self, x: Tensor, valid: Tensor) -> Tensor:
        if not len(x):  # nothing has no maximum
            return x.sum(0)
        return x.masked_fill(~valid, -math.inf).amax(0).masked_fill(~valid.any(0), 0.0)


class LastState(Pooling):
    """The value at each sequence's last step.

    Args:
        width: the width of x.
        bidirectional: whether x has two directions side by side. The half that runs forward ends at the last step, the
            half that runs backward at the first.
        batch_first: whether x is (batch, time, width).

    Example:
        >>> unspool.nn.LastState(8, bidirectional=True)(torch.randn(7, 2, 8), lengths=[7, 3])
    """

    def __init__(self, width: int, *, bidirectional: bool = False, batch_first: bool = False) -> None:
        super().__init__(width, batch_first=batch_first)
        self.bidirectional = bidirectional
        if bidirectional and width % 2:
            remedy = "Give the width of both directions together"
            raise ArgumentError.of("width", width, "is odd and so has no two halves", remedy)

    def read(self, x: Tensor, valid: Tensor) -> Tensor:
        if not len(x):
            return x.sum(0)
        last = (valid.sum(0) - 1).clamp_min(0)
        end = x.gather(0, last.expand_as(x[0]).unsqueeze(0)).squeeze(0)
        if not self.bidirectional:
            return end
        half = self.input_size // 2
        return torch.cat((end[:, :half], x[0, :, half:]), -1)

    def extra_repr(self) -> str:
        return f"{self.input_size}, bidirectional={self.bidirectional}"


class AttentionPooling(Pooling):
    """Σ_t α_t h_t with α = softmax over the steps of vᵀ tanh(W h_t + b): a learned weight for every step.

    W and b are `attention.inner`, v is `attention.outer`.

    Args:
        width: the width of x.
        batch_first: whether x is (batch, time, width).
        device: of the parameters.
        dtype: of the parameters.

    Example:
        >>> pooling = unspool.nn.AttentionPooling(4)
        >>> pooling(torch.randn(7, 2, 4), lengths=[7, 3])
        >>> pooling.weights(torch.randn(7, 2, 4), lengths=[7, 3])  # (7, 2), sums to 1 over the steps
    """

    def __init__(
        self,
        width: int,
        *,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(width, batch_first=batch_first)
        self.attention = _Attention(width, batch_first, device, dtype)

    def weights(self, x: Tensor, *, lengths: Sequence[int] | Tensor | None = None) -> Tensor:
        """α, with the layout of x without its width: (time, batch). Zero beyond a sequence's length."""
        alpha: Tensor = self._attention()(x, lengths=lengths)
        return alpha.squeeze(-1)

    def read(self, x: Tensor, valid: Tensor) -> Tensor:
        return (self._attention().read(x, valid) * x).sum(0)

    def _attention(self) -> _Attention:
        if not isinstance(self.attention, _Attention):
            raise ArgumentTypeError.of("attention", self.attention, "gives no weights", "Make another AttentionPooling")
        return self.attention


class _Attention(Memoryless):
    """α_t at every step: (time, batch, 1)."""

    stepwise = True

    def __init__(
        self, width: int, batch_first: bool, device: torch.device | str | None, dtype: torch.dtype | None
    ) -> None:
        super().__init__(width, 1, batch_first)
        self.inner = nn.Linear(width, width, device=device, dtype=dtype)
        self.outer = nn.Linear(width, 1, bias=False, device=device, dtype=dtype)

    def read(self, x: Tensor, valid: Tensor) -> Tensor:
        scores: Tensor = self.outer(torch.tanh(self.inner(x)))
        check_shape("outer", scores, (*x.shape[:2], 1))
        # A sequence without steps keeps its scores until the end: a softmax over nothing but −inf has no gradient.
        alpha = scores.masked_fill(~valid & valid.any(0), -math.inf).softmax(0)
        return alpha.masked_fill(~valid, 0.0)


def make_pooling(
    name: str,
    width: int,
    *,
    bidirectional: bool = False,
    batch_first: bool = False,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Pooling:
    """Make a pooling by name.

    Args:
        name: "attention", "mean", "max" or "last".
        width: the width of x.
        bidirectional: whether x has two directions side by side, which only "last" uses.
        batch_first: whether x is (batch, time, width).
        device: of the parameters, if there are any.
        dtype: of the parameters, if there are any.

    Returns:
        The pooling.

    Example:
        >>> unspool.nn.make_pooling("last", 8, bidirectional=True)
        LastState(8, bidirectional=True)
    """
    match name:
        case "attention":
            return AttentionPooling(width, batch_first=batch_first, device=device, dtype=dtype)
        case "mean":
            return MeanPooling(width, batch_first=batch_first)
        case "max":
            return MaxPooling(width, batch_first=batch_first)
        case "last":
            return LastState(width, bidirectional=bidirectional, batch_first=batch_first)
    raise UnknownNameError.among("name", name, ("attention", "mean", "max", "last"))
