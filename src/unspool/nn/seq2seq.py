"""Seq2Seq: an encoder reads a sequence of tokens, and its final state starts a decoder that generates another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.cells.cell import check_size
from unspool.errors import ArgumentError, ArgumentTypeError, DeviceError, DivergenceError, DTypeError, ShapeError
from unspool.nn.checks import check_lengths, check_memory, has_whole_numbers
from unspool.nn.leaves import take_rows
from unspool.nn.stack import AnyCell, Stack

Lengths = Sequence[int] | Tensor | None


@dataclass(frozen=True)
class Decoded:
    """A sequence that a decoder generated.

    Attributes:
        tokens: without start and end.
        log_probability: what the model assigns to the tokens, and to the end if it was reached. Temperature and length
            penalty do not change it.
        finished: whether the end was reached.
    """

    tokens: tuple[int, ...] = ()
    log_probability: float = 0.0
    finished: bool = False

    def then(self, token: int, log_probability: float, end: int) -> Decoded:
        """This sequence with one more token; the log-probability is that of the longer sequence."""
        if token == end:
            return replace(self, log_probability=log_probability, finished=True)
        return Decoded((*self.tokens, token), log_probability)


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
        return self._write(source, source_lengths, max_length, lambda log_p, *_: log_p.argmax(-1))

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

        def draw(log_p: Tensor, rows: Tensor, t: int) -> Tensor:
            highest = log_p.amax(-1, keepdim=True)  # taken off first, so that no temperature sends all of them to −∞
            reached = ((log_p - highest) / temperature).exp().cumsum(-1)
            return torch.searchsorted(reached, uniform[rows, t, None] * reached[:, -1:], right=True).squeeze(-1)

        return self._write(source, source_lengths, max_length, draw)

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
        _check_beam(width, length_penalty, best)
        with self._decoding():
            state = self.encode(source, source_lengths)
            searches = [_Beams(width, self.end, max_length, length_penalty, best or 1) for _ in range(len(source))]
            for _ in range(max_length):
                last = self._last_tokens(searches)
                if not last:
                    break
                log_p, state = self._choices(state, torch.tensor(last))
                state = take_rows(state, torch.tensor(_grow(searches, log_p), dtype=torch.long))
        ranked = [search.ranked() for search in searches]
        return [beams[0] for beams in ranked] if best is None else [beams[:best] for beams in ranked]

    def _last_tokens(self, searches: list[_Beams]) -> list[int]:
        """What every live beam ends with."""
        live = [beam for search in searches for beam in search.live]
        return [beam.tokens[-1] if beam.tokens else self.start for beam in live]

    def _write(
        self,
        source: Tensor,
        source_lengths: Lengths,
        max_length: int,
        choose: Callable[[Tensor, Tensor, int], Tensor],
    ) -> list[Decoded]:
        """One sequence per source, its tokens chosen from (log-probabilities, places in the batch, step)."""
        check_size("max_length", max_length)
        with self._decoding():
            state = self.encode(source, source_lengths)
            written = [Decoded()] * len(source)
            rows = torch.arange(len(source))
            tokens = torch.full((len(source),), self.start)
            for t in range(max_length):
                if not len(rows):
                    break
                log_p, state = self._choices(state, tokens)
                tokens = choose(log_p, rows, t)
                gains = log_p.gather(1, tokens.unsqueeze(1)).squeeze(1)
                for row, token, gain in zip(rows.tolist(), tokens.tolist(), gains.tolist(), strict=True):
                    written[row] = written[row].then(token, written[row].log_probability + gain, self.end)
                live = (tokens != self.end).nonzero().squeeze(1)
                rows, tokens, state = rows[live], tokens[live], take_rows(state, live)
        return written

    def _choices(self, state: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        """`step` on the CPU in float64, where sequences are kept, with −∞ for tokens that must not be chosen."""
        log_p, state = self.step(state, tokens.to(self._device()))
        log_p = log_p.to("cpu", torch.float64)
        if log_p.isnan().any():
            raise DivergenceError("the model gives NaN for log-probabilities: training may have diverged")
        log_p[:, [token for token in (self.start, self.padding) if token != self.end]] = -math.inf
        return log_p, state

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        """No gradient and no dropout; afterwards each module is in the mode that it was in before."""
        modes = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            with torch.no_grad():
                yield
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


@dataclass
class _Beams:
    """The search for one source: the beams that are still growing, and those that are done."""

    width: int
    end: int
    max_length: int
    length_penalty: float
    best: int
    live: list[Decoded] = field(default_factory=lambda: [Decoded()])
    done: list[Decoded] = field(default_factory=list)

    def grow(self, log_p: Tensor) -> list[int]:
        """Extend the live beams by the likeliest next tokens. Returns which beam each new live one came from."""
        totals = log_p + torch.tensor([beam.log_probability for beam in self.live], dtype=log_p.dtype).unsqueeze(1)
        likeliest, places = totals.flatten().topk(min(self.width - len(self.done), totals.numel()))
        grown, parents = [], []
        for total, place in zip(likeliest.tolist(), places.tolist(), strict=True):
            if total == -math.inf:
                break
            parent, token = divmod(place, log_p.shape[1])
            beam = self.live[parent].then(token, total, self.end)
            if beam.finished:
                self.done.append(beam)
            else:
                grown.append(beam)
                parents.append(parent)
        self.live = grown
        if self._settled():
            self.live, parents = [], []
        return parents

    def ranked(self) -> list[Decoded]:
        """All beams, the best first."""
        return sorted(self.done + self.live, key=self._score, reverse=True)

    def _score(self, beam: Decoded) -> float:
        """Log-probability / length**length_penalty. The first step makes every beam at least one long."""
        return beam.log_probability * math.pow(len(beam.tokens) + beam.finished, -self.length_penalty)

    def _settled(self) -> bool:
        """Whether no live beam can still be among the best: log-probabilities only fall, lengths have a limit."""
        if len(self.done) < self.best:
            return False
        likeliest = max((beam.log_probability for beam in self.live), default=-math.inf)
        hope = likeliest * math.pow(self.max_length, -self.length_penalty)
        return sorted(map(self._score, self.done), reverse=True)[self.best - 1] >= hope


def _grow(searches: Sequence[_Beams], log_p: Tensor) -> list[int]:
    """Let every search grow by its part of the log-probabilities; which of all beams each new live one came from."""
    parents: list[int] = []
    first = 0
    for search in searches:
        after = first + len(search.live)
        parents += [first + parent for parent in search.grow(log_p[first:after])]
        first = after
    return parents


def _check_beam(width: int, length_penalty: float, best: int | None) -> None:
    check_size("width", width)
    if best is not None and check_size("best", best) > width:
        raise ArgumentError.of("best", best, f"is more than the {width} beams", "Raise `width`")
    if not (isinstance(length_penalty, int | float) and math.isfinite(length_penalty) and length_penalty >= 0):
        raise ArgumentError.of("length_penalty", length_penalty, "is not a number from 0 on", "Give 0 for none")


def _check_token(name: str, value: object, size: int) -> int:
    """`value` as a token: a whole number from 0 to `size` − 1."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ArgumentTypeError.of(name, value, "is not a whole number", f"Give a token, from 0 to {size - 1}")
    token: int = value.__index__()
    if not 0 <= token < size:
        raise ArgumentError.of(name, value, f"is not a token from 0 to {size - 1}", "Check the vocabularies' sizes")
    return token
