"""DecoderTransformer: causal self-attention called as a recurrent layer. Its state is the cache of keys and values."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.cells.cell import check_size
from unspool.cells.numbers import is_number
from unspool.errors import ArgumentError, ArgumentTypeError, DeviceError, DTypeError, ShapeError
from unspool.nn.checks import check_shape, check_state, check_viewable, is_row_of, say_how_many
from unspool.nn.layer import Layer, valid_steps
from unspool.nn.leaves import map_leaves

Cache = tuple[Tensor, Tensor]


class Block(nn.Module):
    """One pre-norm layer on h (batch, time, width): h + attention(norm(h)), then h + feed_forward(norm(h)).

    `cache` holds the keys and values of earlier steps, each (batch, heads, steps, width / heads). With
    `detach_cache` a step sends gradient to its own key and value and to none before it.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        feed_forward: int,
        dropout: float,
        detach_cache: bool,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.num_heads, self.dropout, self.detach_cache = num_heads, dropout, detach_cache
        self.attention_norm = nn.LayerNorm(width, device=device, dtype=dtype)
        self.query_key_value = nn.Linear(width, 3 * width, device=device, dtype=dtype)
        self.attention_out = nn.Linear(width, width, device=device, dtype=dtype)
        self.feed_forward_norm = nn.LayerNorm(width, device=device, dtype=dtype)
        self.feed_forward_in = nn.Linear(width, feed_forward, device=device, dtype=dtype)
        self.feed_forward_out = nn.Linear(feed_forward, width, device=device, dtype=dtype)

    def forward(self, h: Tensor, cache: Cache, mask: Tensor, own: Tensor) -> tuple[Tensor, Cache, Tensor]:
        """The next h, the longer cache, and the attention (batch, heads, time, keys).

        `mask` (batch, 1, time, keys) is 0 for the keys that a step attends to and −∞ for the others; `own`
        (time, keys) says which key is the step's own.
        """
        attended, cache, attention = self._attend(self.attention_norm(h), cache, mask, own)
        mixed = self.attention_out(attended)
        check_shape("attention_out(h)", mixed, h.shape)
        h = h + functional.dropout(mixed, self.dropout, self.training)
        hidden = functional.gelu(self.feed_forward_in(self.feed_forward_norm(h)))
        fed = self.feed_forward_out(hidden)
        check_shape("feed_forward_out(h)", fed, h.shape)
        return h + functional.dropout(fed, self.dropout, self.training), cache, attention

    def _attend(self, h: Tensor, cache: Cache, mask: Tensor, own: Tensor) -> tuple[Tensor, Cache, Tensor]:
        projected = self.query_key_value(h)
        check_shape("query_key_value(h)", projected, (*h.shape[:-1], 3 * h.shape[-1]))
        q, k, v = projected.unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        if cache[0].shape[1] != self.num_heads:
            problem = f"is not the number of heads of the cache, {cache[0].shape[1]}"
            raise ArgumentError.of("num_heads", self.num_heads, problem, "Make a layer of these sizes")
        keys, values = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        if self.detach_cache:  # a step's own key and value are added again as zeros that have their gradient
            keys, values, k, v = keys.detach(), values.detach(), k - k.detach(), v - v.detach()
        q = q / math.sqrt(q.shape[-1])
        scores = q @ keys.mT + mask
        if self.detach_cache:
            scores = scores + own * (q * k).sum(-1, keepdim=True)
        attention = scores.softmax(-1)
        mixed = attention @ values
        if self.detach_cache:
            mixed = mixed + (own * attention).sum(-1, keepdim=True) * v
        return mixed.transpose(1, 2).flatten(2), (keys, values), attention


def _check_dropout(dropout: object) -> None:
    if not is_number(dropout) or not 0 <= dropout <= 1:
        raise ArgumentError.of("dropout", dropout, "is not a probability", "Give a number from 0 to 1")


class DecoderTransformer(Layer):
    """A causal pre-norm Transformer, called like a recurrent layer: each step attends to itself and all earlier ones.

    The state is the cache: whether each past step was within its sequence's length (batch, steps), and for each layer
    the keys and values of those steps (batch, heads, steps, width / heads). It grows with every call. A call with the
    state of an earlier one continues from there: step by step gives the same as all at once.

    The trace is a list with, for each layer, "attention" (time, batch, heads, keys), the keys being those of the cache
    and then the new ones, and "h" (time, batch, width), the layer's output.

    Args:
        width: of x, of the output and of every layer.
        num_heads: the number of attention heads, which must divide `width`.
        num_layers: the number of layers.
        feed_forward: the width inside the feed-forward part; 4 · `width` by default.
        dropout: in training, on what attention and feed-forward add to the residual stream.
        positions: whether a sinusoidal encoding of each sequence's own step count is added to x. There is no longest
            sequence.
        detach_cache: no gradient flows through keys and values into earlier steps, of this call or of earlier ones:
            truncated backpropagation with a window of one step.
        batch_first: whether x and the output are (batch, time, width).
        device: of the parameters.
        dtype: of the parameters.

    Example:
        >>> layer = unspool.nn.DecoderTransformer(32, num_heads=4, num_layers=2)
        >>> output, state = layer(torch.randn(7, 3, 32))
        >>> output, state = layer(torch.randn(1, 3, 32), state)  # the eighth step
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        num_layers: int = 1,
        *,
        feed_forward: int | None = None,
        dropout: float = 0.0,
        positions: bool = True,
        detach_cache: bool = False,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = self.output_size = self.width = check_size("width", width)
        self.num_heads, self.num_layers = check_size("num_heads", num_heads), check_size("num_layers", num_layers)
        if self.width % self.num_heads:
            raise ArgumentError.of(
                "width", width, f"cannot be divided among num_heads (={num_heads})", "Give a multiple of the heads"
            )
        _check_dropout(dropout)
        feed_forward = 4 * self.width if feed_forward is None else check_size("feed_forward", feed_forward)
        self.positions, self.detach_cache, self.batch_first = positions, detach_cache, batch_first
        self.blocks = nn.ModuleList(
            Block(self.width, self.num_heads, feed_forward, dropout, detach_cache, device, dtype)
            for _ in range(self.num_layers)
        )
        self.norm = nn.LayerNorm(self.width, device=device, dtype=dtype)

    def run(self, x: Tensor, state: Any, ends: Tensor | None, trace: bool) -> tuple[Tensor, Any, Any]:
        steps, rows, _ = x.shape
        past, caches = state
        valid = past.new_ones(steps, rows, 1) if ends is None else valid_steps(ends, steps)
        x = x.masked_fill(~valid, 0.0)  # padding, NaN included, must not reach a gradient
        h = x.transpose(0, 1)
        now = torch.arange(steps, device=x.device)
        if self.positions:
            h = h + sinusoids(past.sum(1, keepdim=True) + now, self.width, h.dtype)

        real = torch.cat((past, valid.squeeze(-1).T), 1)
        ages = (past.shape[1] + now).unsqueeze(1) - torch.arange(real.shape[1], device=x.device)
        own = ages == 0
        seen = (ages >= 0) & real.unsqueeze(1) | own  # padding attends to itself: a softmax over nothing is NaN
        mask = torch.zeros_like(seen, dtype=h.dtype).masked_fill(~seen, -math.inf).unsqueeze(1)
        longer, values = [], []
        if not isinstance(self.blocks, nn.ModuleList) or len(self.blocks) != len(caches):
            problem = f"are not num_layers (={len(caches)}) blocks"
            raise ArgumentError.of("blocks", self.blocks, problem, "Make a layer of these sizes")
        for block, cache in zip(self.blocks, caches, strict=True):
            h, cache, attention = block(h, cache, mask, own)
            longer.append(cache)
            if trace:
                attention = attention.permute(2, 0, 1, 3).masked_fill(~valid.unsqueeze(-1), 0.0)
                values.append({"attention": attention, "h": h.transpose(0, 1).masked_fill(~valid, 0.0)})
        normed = self.norm(h)
        check_shape("norm(h)", normed, h.shape)
        return normed.transpose(0, 1).masked_fill(~valid, 0.0), (real, longer), values

    def state_shapes(self, rows: int, steps: int = 0) -> Any:
        """The shapes of a cache of `steps` steps; the initial one has none."""
        heads = check_size("num_heads", self.num_heads)
        if self.width != self.input_size:
            problem = f"was changed; x is as wide as input_size (={self.input_size})"
            raise ArgumentError.of("width", self.width, problem, "Make a layer of this width")
        part = torch.Size((rows, heads, steps, self.width // heads))
        return torch.Size((rows, steps)), [(part, part)] * self.num_layers

    def initial_state(self, rows: int, like: Tensor) -> Any:
        real, caches = self.state_shapes(rows)
        return like.new_zeros(real, dtype=torch.bool), map_leaves(like.new_zeros, caches)

    def check_state(self, state: Any, rows: int, like: Tensor | None) -> None:
        """`state` is a cache for a batch size of `rows`, of any number of steps."""
        if not is_row_of(2, state):
            raise ShapeError(
                "`state` must be a pair (which steps are real, keys and values of each layer), got "
                f"{say_how_many(state)}. Give the state that the layer returned."
            )
        real, caches = state
        _check_real_steps(real, rows, like)
        check_viewable("state[0]", real)
        check_state(caches, self.state_shapes(rows, real.shape[1])[1], like, "state[1]")

    def extra_repr(self) -> str:
        options = [name for name in ("detach_cache", "batch_first") if getattr(self, name)]
        without = [] if self.positions else ["positions=False"]
        return ", ".join([str(self.width), str(self.num_heads), *without, *(f"{name}=True" for name in options)])


def _check_real_steps(real: Any, rows: int, like: Tensor | None) -> None:
    """The first part of a state says of every cached step whether it is real."""
    if not isinstance(real, Tensor):
        raise ArgumentTypeError.of("state[0]", real, "is not a tensor", "Give the state that the layer returned")
    if real.dtype != torch.bool:
        raise DTypeError.of("state[0]", real.dtype, "is not torch.bool", "It says which of the cached steps are real")
    if real.dim() != 2 or len(real) != rows:
        raise ShapeError.of(
            "state[0]", tuple(real.shape), f"is not of shape ({rows}, steps)", "Give the batch size of x"
        )
    if like is not None and real.device != like.device:
        raise DeviceError.of("state[0]", real.device, f"is not the layer's {like.device}", "Move one of the two")


def sinusoids(counts: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """(…, width): sine and cosine, in turn, of the counts at frequencies that fall from 1 to 1/10000."""
    precise = torch.promote_types(dtype, torch.float32)
    rates = 10_000 ** (-torch.arange(0, width, 2, device=counts.device, dtype=precise) / width)
    angles = counts.unsqueeze(-1) * rates
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)[..., :width].to(dtype)
