"""Seq2Seq: an encoder reads a sequence of tokens, and its final state starts a decoder that generates another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from unspool.cells.cell import check_size
from unspool.decoding.sequences import Choice, Decoded, Decoder, check_beams, choose_at_random, choose_likeliest
from unspool.errors import ArgumentError, ArgumentTypeError, DeviceError, DTypeError, ShapeError
from unspool.nn.checks import check_lengths, check_memory, has_whole_numbers
from unspool.nn.stack import AnyCell, Stack

Lengths = Sequence[int] | Tensor | None


class Seq2Seq(nn.Module):
    """Encoder–decoder: the final state of each encoder layer is the initial state of the decoder layer at its level.

    Tokens are whole numbers from 0 to `source_size` − 1 or `target_size` − 1, as tensors (batch, time). A source
    sequence ends where `source_lengths` says; without it, at its last token that is not `padding`. Padding changes
    nothing, and neither do the other sequences of the batch.

    Decoding takes at most `max_length` steps, the one to `end` included. It never chooses `start` or `padding`, uses no
    dropout, and computes no gradient.

    Args:
        source_size: the number of source tokens.
        target_size: the number of target tokens.
        embedding_size: the width of both embeddings.
        hidden_size: the number of units, one for all layers or one per layer.
        num_layers: the number of layers of the encoder, and of the decoder.
        cell: one for all layers or one per layer; encoder and decoder have the same.
        dropout: between layers, as in `Stack`.
        start: the token before every target sequence.
        end: the token after it.
        padding: the token beyond the end of a sequence.
        device: of the parameters.
        dtype: of the parameters.

    Example:
        >>> model = unspool.nn.Seq2Seq(100, 120, embedding_size=32, hidden_size=64)
        >>> logits = model(source, target)  # (batch, time, 120), to train with
        >>> model.beam(source, width=4)[0].tokens
    """

    def __init__(
        self,
        source_size: int,
        target_size: int,
        embedding_size: int,
        hidden_size: int | Sequence[int],
        num_layers: int = 1,
        *,
        cell: AnyCell | Sequence[AnyCell] = "lstm",
        dropout: float | Sequence[float] = 0.0,
        start: int = 1,
        end: int = 2,
        padding: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.source_size = check_size("source_size", source_size)
        self.target_size = check_size("target_size", target_size)
        self.embedding_size = check_size("embedding_size", embedding_size)
        self.start = _check_token("start", start, self.target_size)
        self.end = _check_token("end", end, self.target_size)
        self.padding = _check_token("padding", padding, min(self.source_size, self.target_size))
        self.source_embedding = nn.Embedding(source_size, embedding_size, device=device, dtype=dtype)
        self.target_embedding = nn.Embedding(target_size, embedding_size, device=device, dtype=dtype)
        self.encoder, self.decoder = (
            Stack(
                cell,
                embedding_size,
                hidden_size,
                num_layers,
                dropout=dropout,
                batch_first=True,
                device=device,
                dtype=dtype,
            )
            for _ in range(2)
        )
        self.head = nn.Linear(self.decoder.output_size, target_size, device=device, dtype=dtype)

    def forward(self, source: Tensor, target: Tensor, source_lengths: Lengths = None) -> Tensor:
        """Teacher forcing: logits (batch, time, target_size) of the token that follows each token of `target`.

        Sequences of `target` begin with `start`. Logits at padding mean nothing: leave them out of the loss.
        """
        source, ends = self._check_source(source, source_lengths)
        target = self._check_tokens("target", target, self.target_size)
        if len(target) != len(source):
            problem = f"does not have the batch size of `source`, {len(source)}"
            raise ShapeError.of("target", tuple(target.shape), problem, "Give one target per source")
        output, _ = self.decoder(self.target_embedding(target), self._encode(source, ends))
        logits: Tensor = self.head(output)
        return logits

    def encode(self, source: Tensor, source_lengths: Lengths = None) -> Any:
        """The decoder's initial state."""
        return self._encode(*self._check_source(source, source_lengths))

    def step(self, state: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        """Log-probabilities (batch, target_size) of what follows the `tokens` (batch,), and the next state."""
        tokens = self._check_tokens("tokens", tokens, self.target_size, rank=1)
        output, state = self.decoder(self.target_embedding(tokens.unsqueeze(1)), state)
        return functional.log_softmax(self.head(output.squeeze(1)), -1), state

    def greedy(self, source: Tensor, source_lengths: Lengths = None, max_length: int = 100) -> list[Decoded]:
        """Greedy decoding: for each source the sequence whose every token is the likeliest given those before it."""
        return self._write(source, source_lengths, max_length, choose_likeliest)

    def sample(
        self,
        source: Tensor,
        source_lengths: Lengths = None,
        max_length: int = 100,
        *,
        temperature: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> list[Decoded]:
        """For each source a sequence drawn from the model, whose logits are divided by `temperature`.

        The random numbers of sequence i depend only on the generator, `max_length` and i.
        """
        if not (isinstance(temperature, int | float) and math.isfinite(temperature) and temperature > 0):
            raise ArgumentError.of("temperature", temperature, "is not a positive number", "Give 1 for the model's own")
        check_size("max_length", max_length)
        source = self._check_tokens("source", source, self.source_size)
        device = None if generator is None else generator.device
        uniform = torch.rand(len(source), max_length, dtype=torch.float64, generator=generator, device=device).cpu()

        return self._write(source, source_lengths, max_length, choose_at_random(uniform.numpy(), temperature))

    @overload
    def beam(
        self,
        source: Tensor,
        source_lengths: Lengths = ...,
        max_length: int = ...,
        *,
        width: int = ...,
        length_penalty: float = ...,
        best: None = ...,
    ) -> list[Decoded]: ...
    @overload
    def beam(
        self,
        source: Tensor,
        source_lengths: Lengths = ...,
        max_length: int = ...,
        *,
        width: int = ...,
        length_penalty: float = ...,
        best: int,
    ) -> list[list[Decoded]]: ...
    def beam(
        self,
        source: Tensor,
        source_lengths: Lengths = None,
        max_length: int = 100,
        *,
        width: int = 4,
        length_penalty: float = 0.0,
        best: int | None = None,
    ) -> list[Decoded] | list[list[Decoded]]:
        """For each source the best sequence that `width` beams find; with `best=n`, a list of the n best.

        A beam that reaches `end` stops, and the others continue. In the end they are ranked by
        log_probability / length**length_penalty, the end counting as a token.
        """
        check_size("max_length", max_length)
        check_beams(width, length_penalty, best)
        with self._decoding() as decoder:
            state = self.encode(source, source_lengths)
            of_beams = {"width": width, "length_penalty": length_penalty, "best": best or 1}
            ranked = decoder.search(state, len(source), max_length, **of_beams)
        return [beams[0] for beams in ranked] if best is None else ranked

    def _write(self, source: Tensor, source_lengths: Lengths, max_length: int, choose: Choice) -> list[Decoded]:
        """One sequence per source."""
        check_size("max_length", max_length)
        with self._decoding() as decoder:
            return decoder.write(self.encode(source, source_lengths), len(source), max_length, choose)

    def _next(self, state: Any, tokens: NDArray[np.int64]) -> tuple[NDArray[np.float64], Any]:
        """`step` for a decoder, which keeps sequences on the CPU in float64."""
        log_p, state = self.step(state, torch.from_numpy(tokens).to(self._device()))
        return log_p.to("cpu", torch.float64).numpy(), state

    @contextmanager
    def _decoding(self) -> Iterator[Decoder]:
        """A decoder without gradient and dropout; afterwards each module is in the mode that it was in before."""
        modes = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            with torch.no_grad():
                yield Decoder(self._next, self.start, self.end, self.padding)
        finally:
            for module, mode in modes:
                module.training = mode

    def _encode(self, source: Tensor, ends: Tensor) -> Any:
        return self.encoder(self.source_embedding(source), lengths=ends)[1]

    def _check_source(self, source: Any, source_lengths: Lengths) -> tuple[Tensor, Tensor]:
        """The source and the length of each of its sequences."""
        source = self._check_tokens("source", source, self.source_size)
        if source_lengths is None:  # a step counts if it or a later one holds a token other than padding
            source_lengths = ((source != self.padding).flip(1).cumsum(1) > 0).sum(1)
        return source, check_lengths(source_lengths, source.shape[1], len(source), source.device, "source_lengths")

    def _device(self) -> torch.device:
        weight = getattr(self.head, "weight", None)
        if not isinstance(weight, Tensor):
            raise ArgumentTypeError.of("head.weight", weight, "is not a tensor", "Give the model all its parameters")
        return weight.device

    def _check_tokens(self, name: str, tokens: Any, size: int, rank: int = 2) -> Tensor:
        """The tokens as 64-bit numbers."""
        if not isinstance(tokens, Tensor):
            raise ArgumentTypeError.of(name, tokens, "is not a torch tensor", "Convert it by torch.as_tensor")
        if not has_whole_numbers(tokens):
            raise DTypeError.of(name, tokens.dtype, "is not an integer dtype", f"Convert it by {name}.long()")
        if tokens.dim() != rank:
            layout = "(batch, time)" if rank == 2 else "(batch,)"
            raise ShapeError.of(name, tuple(tokens.shape), f"has {tokens.dim()} dimension(s)", f"Give {layout}")
        if tokens.device != (device := self._device()):
            raise DeviceError.of(name, tokens.device, f"is not the model's {device}", "Move one of the two")
        if tokens.layout != torch.strided:
            raise ArgumentError.of(
                name, tokens.layout, "is not a dense tensor", f"Give dense numbers: {name}.to_dense()"
            )
        check_memory(name, tokens)
        whole: Tensor = tokens.long()
        _check_range(name, whole, size)
        return whole


def _check_range(name: str, tokens: Tensor, size: int) -> None:
    outside = tokens[(tokens < 0) | (tokens >= size)]
    if len(outside):
        raise ArgumentError.of(
            name, int(outside[0]), f"is not a token from 0 to {size - 1}", "Check the size of the vocabulary"
        )


def _check_token(name: str, value: object, size: int) -> int:
    """`value` as a token: a whole number from 0 to `size` − 1."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ArgumentTypeError.of(name, value, "is not a whole number", f"Give a token, from 0 to {size - 1}")
    token: int = value.__index__()
    if not 0 <= token < size:
        raise ArgumentError.of(name, value, f"is not a token from 0 to {size - 1}", "Check the vocabularies' sizes")
    return token
