"""Baselines without memory: what can be read from a sequence without carrying a state through it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.cells.cell import check_size
from unspool.nn.memoryless import Memoryless


class BagOfVectors(Memoryless):
    """Σ_t x_t, or their `mean`: (batch, input_size). A sentence is the words it has, in any order.

    Args:
        input_size: The width of x.
        mean: Whether to divide by the number of steps.
        batch_first: Whether x is (batch, time, input_size).

    Example:
        >>> BagOfVectors(8)(torch.randn(20, 4, 8)).shape
        torch.Size([4, 8])
    """

    def __init__(self, input_size: int, mean: bool = False, *, batch_first: bool = False) -> None:
        super().__init__(input_size, input_size, batch_first)
        self.mean = mean

    def read(self, x: Tensor, valid: Tensor) -> Tensor:
        total = x.sum(0)
        return total / valid.sum(0).clamp_min(1) if self.mean else total

    def extra_repr(self) -> str:
        return f"{self.input_size}, mean={self.mean}"


class _SharedNetwork(Memoryless):
    """One two-layer network f for every step."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        output_size: int,
        *,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, output_size, batch_first)
        self.network = nn.Sequential(
            nn.Linear(input_size, check_size("hidden_size", hidden_size), device=device, dtype=dtype),
            nn.Tanh(),
            nn.Linear(hidden_size, output_size, device=device, dtype=dtype),
        )

    def at_each_step(self, x: Tensor, valid: Tensor) -> Tensor:
        """f(x_t), (time, batch, output_size); zero beyond each row's length."""
        return _rest(self.network(x), valid)


class SharedFCN(_SharedNetwork):
    """Σ_t f(x_t) with one two-layer network f for every step: (batch, output_size). As blind to order as a bag.

    Args:
        input_size: The width of x.
        hidden_size: The units between the two layers.
        output_size: The width of the output.
        batch_first: Whether x is (batch, time, input_size).
        device: Where the parameters are made.
        dtype: Their element type.

    Example:
        >>> SharedFCN(8, 32, 16)(torch.randn(20, 4, 8)).shape
        torch.Size([4, 16])
    """

    def read(self, x: Tensor, valid: Tensor) -> Tensor:
        return self.at_each_step(x, valid).sum(0)


class StatelessMLP(_SharedNetwork):
    """f(x_t) at every step, by one two-layer network f: (time, batch, output_size). It knows the present only.

    Args:
        input_size: The width of x.
        hidden_size: The units between the two layers.
        output_size: The width of the output.
        batch_first: Whether x is (batch, time, input_size).
        device: Where the parameters are made.
        dtype: Their element type.

    Example:
        >>> StatelessMLP(8, 32, 16)(torch.randn(20, 4, 8)).shape
        torch.Size([20, 4, 16])
    """

    stepwise = True

    def read(self, x: Tensor, valid: Tensor) -> Tensor:
        return self.at_each_step(x, valid)


class Convolution(Memoryless):
    """max_t relu(Σ_j W_j x_{t−j} + b) over windows of `kernel_size` steps: (batch, channels).

    With several `layers`, each of them convolves what the one below gives at every step, and the maximum is taken over
    the top. Layers are causal: step t reads no later step. It sees order within `receptive_field` steps and none
    beyond. Before the first step stand zeros, so that rows shorter than a window can be read; a row without steps gives
    zeros.

    Args:
        input_size: The width of x.
        channels: The width of every layer, and so of the output.
        kernel_size: The steps of a window, in every layer.
        layers: How many convolutions lie on top of each other.
        batch_first: Whether x is (batch, time, input_size).
        device: Where the parameters are made.
        dtype: Their element type.

    Example:
        >>> baseline = Convolution(8, 16, kernel_size=3, layers=2)
        >>> baseline(torch.randn(20, 4, 8)).shape, baseline.receptive_field
        (torch.Size([4, 16]), 5)
    """

    def __init__(
        self,
        input_size: int,
        channels: int,
        kernel_size: int,
        *,
        layers: int = 1,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, check_size("channels", channels), batch_first)
        self.kernel_size = check_size("kernel_size", kernel_size)
        count = check_size("layers", layers)
        self.convolution = nn.Conv1d(input_size, channels, kernel_size, device=device, dtype=dtype)
        self.upper = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel_size, device=device, dtype=dtype) for _ in range(count - 1)
        )

    @property
    def receptive_field(self) -> int:
        """How many steps, the present one included, the top layer sees at a step: 1 + layers·(kernel_size − 1)."""
        return 1 + (1 + len(self.upper)) * (self.kernel_size - 1)

    def convolve(self, x: Tensor) -> Tensor:
        """The top layer at every step, (time, batch, channels), before the maximum; x is time-major and not empty."""
        values = x.permute(1, 2, 0)
        for convolution in (self.convolution, *self.upper):
            values = torch.relu(convolution(functional.pad(values, (self.kernel_size - 1, 0))))
        return values.permute(2, 0, 1)

    def read(self, x: Tensor, valid: Tensor) -> Tensor:
        steps, rows, _ = x.shape
        if not steps or not rows:
            return x.new_zeros(rows, self.output_size)
        return _rest(self.convolve(x), valid).amax(0)  # relu is nowhere below the padding's zeros

    def extra_repr(self) -> str:
        return f"receptive_field={self.receptive_field}"


def _rest(values: Tensor, valid: Tensor) -> Tensor:
    """`values`, zero beyond each row's length."""
    return values.masked_fill(~valid, 0.0)
