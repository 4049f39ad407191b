"""TranslatorPlayer: a text in, another text out, by an encoder, attention and a decoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspool.decoding.sequences import Decoded, Decoder
from unspool.runtime.arithmetic import apply_linear, cross_entropy, log_softmax, masked_softmax
from unspool.runtime.embedding import embed
from unspool.runtime.network import Array, Translator
from unspool.runtime.player import ExamplePlayer, Scores, as_lengths
from unspool.runtime.stack import StackPlayer, States

#: Ids of both sides that stand for no text.
PADDING, START, END = range(3)


class Decoding(NamedTuple):
    """Where a decoder is: its states, and what it attends to; every array has the batch first."""

    states: States
    keys: Array | None = None  # (batch, source, width of the decoder)
    memory: Array | None = None  # (batch, source, width of the encoder)
    there: NDArray[np.bool_] | None = None  # (batch, source)


class TranslatorPlayer(ExamplePlayer):
    """P(target | source), token by token. The `inputs` of a batch are (source, batch), its targets (target, batch).

    Args:
        network: The model.
        threads: The most threads that a call uses.
    """

    def __init__(self, network: Translator, threads: int = 1) -> None:
        self.network = network
        self.encoder, self.decoder = StackPlayer(network.encoder, threads), StackPlayer(network.decoder, threads)

    def encode(self, source: Any, lengths: Any) -> Decoding:
        """Read sources (source, batch) of these lengths; where the decoder starts."""
        ends = as_lengths(lengths)
        h, finals = self.encoder.run(embed(self.network.source, source), lengths=ends)
        states = tuple((_mean(layer),) for layer in finals)
        if self.network.keys is None:
            return Decoding(states)
        memory = h.swapaxes(0, 1)
        return Decoding(states, apply_linear(self.network.keys, memory), memory, np.arange(len(h)) < ends[:, None])

    def decode(self, tokens: Any, state: Decoding, lengths: Array | None = None) -> tuple[Array, Decoding]:
        """Logits (time, batch, tokens) of what follows each of `tokens` (time, batch), and the next state."""
        q, states = self.decoder.run(embed(self.network.target, tokens), state.states, lengths)
        if self.network.mix is not None:
            q = np.tanh(apply_linear(self.network.mix, np.concatenate((q, _attend(q, state)), -1)))
        return apply_linear(self.network.head, q), state._replace(states=states)

    def step(self, state: Decoding, tokens: Any) -> tuple[Array, Decoding]:
        """Log-probabilities (batch, tokens) of what follows the `tokens` (batch,), and the next state."""
        logits, state = self.decode(np.asarray(tokens)[None], state)
        return log_softmax(logits[0]), state

    def score(self, batch: Any) -> Scores:
        """Logits (time, batch, tokens) of the tokens of the targets, each after the true ones; none without targets."""
        if batch.targets is None:
            return Scores([np.zeros((0, len(batch.lengths), len(self.network.head.weight)), self.decoder.dtype)])
        targets = np.asarray(batch.targets)
        before = np.concatenate((np.full_like(targets[:1], START), targets[:-1]))
        state = self.encode(batch.inputs, batch.lengths)
        return Scores([self.decode(before, state, as_lengths((targets != PADDING).sum(0)))[0]])

    def measure(self, batch: Any) -> tuple[float, int]:
        """The loss summed over the target tokens, each after the true ones, and how many of them are the likeliest."""
        scores, targets = self.score(batch).levels[-1], np.asarray(batch.targets)
        likeliest = (scores.argmax(-1) == targets) & (targets != PADDING)
        return self.summed_loss(scores, batch), int(likeliest.sum())

    def summed_loss(self, scores: Array, batch: Any) -> float:
        return cross_entropy(scores, batch.targets, PADDING)

    def predictions(self, scores: Array, batch: Any) -> Sequence[Decoded]:  # noqa: ARG002 - scores follow the true tokens
        decoder, state = Decoder(self.step, START, END, PADDING), self.encode(batch.inputs, batch.lengths)
        rows, longest, beams = len(batch.lengths), self.network.longest, self.network.beam_size
        if beams == 1:
            return decoder.write(state, rows, longest)
        return [found[0] for found in decoder.search(state, rows, longest, width=beams)]


def _mean(directions: Sequence[Sequence[Array]]) -> tuple[Array, ...]:
    """The states of a layer, of two directions their mean."""
    if len(directions) == 1:
        return tuple(directions[0])
    return tuple((ahead + back) / 2 for ahead, back in zip(*directions, strict=True))


def _attend(q: Array, state: Decoding) -> Array:
    """Σ_s a_ts m_s with a_t = softmax_s(q_t · k_s / √width), (time, batch, width)."""
    assert state.keys is not None
    assert state.memory is not None
    assert state.there is not None
    queries = q.swapaxes(0, 1) / q.dtype.type(math.sqrt(q.shape[-1]))
    weights = masked_softmax(queries @ state.keys.swapaxes(1, 2), state.there[:, None])
    return np.asarray(weights @ state.memory).swapaxes(0, 1)
