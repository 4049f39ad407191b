"""Models that read a text and write another: encoder, attention, decoder; and what is learned of pairs of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from unspool.learning.contract import Outcome
from unspool.learning.forcing import free_run
from unspool.learning.settings import Size
from unspool.nn import Seq2Seq, Stack
from unspool.nn.layer import map_leaves
from unspool.nn.seq2seq import Decoded, Lengths
from unspool.tasks.body import spread_weights
from unspool.tasks.encoder import EncoderSettings, embedding_width
from unspool.tasks.examples import Batch, ExampleLearner, Scores
from unspool.tasks.layered import Layered, Reading

#: Ids of both sides that stand for no text, and the first that does.
PADDING, START, END, FIRST = range(4)


class TranslatorSettings(EncoderSettings):
    """An encoder that reads a text, and a decoder of as many layers that writes another."""

    bidirectional: bool = Field(True, description="the encoder reads from both ends")
    attention: bool = Field(True, description="the decoder looks back at all that was read, not at its end alone")
    beam: Size = Field(1, description="texts that are written side by side in search of the likeliest; 1: greedily")


class Side(Layered):
    """The layers of the encoder, or of the decoder."""

    def __init__(self, settings: TranslatorSettings, input_size: int, bidirectional: bool = False) -> None:
        super().__init__()
        self.make_layers(settings, input_size, bidirectional)
        self.bidirectional, self.output_size = bidirectional, settings.hidden * (1 + bidirectional)

    def meet(self, state: Any) -> Any:
        """One state for each layer: where it reads from both ends, the mean of the two."""
        if not self.bidirectional:
            return state
        if isinstance(self.body, Stack):
            return [_mean(ahead, back) for ahead, back in state]
        return map_leaves(lambda part: part.unflatten(1, (-1, 2)).mean(2), state)  # torch.nn's layers, two and two


class Writer(Seq2Seq):
    """Seq2Seq with a config's layers, whose decoder starts in the mean of the directions' states and may look back.

    Where the decoder's output is q_t and the encoder's m_s, attention is a_t = softmax_s(q_t · K m_s / √width), and
    the head reads tanh(W [q_t; Σ_s a_ts m_s] + b). The state is the decoder's, with all that it looks back at.
    """

    def __init__(self, settings: TranslatorSettings, source_size: int, target_size: int) -> None:
        width = embedding_width(settings)
        super().__init__(source_size, target_size, width, settings.hidden, settings.layers, cell=settings.cell)
        del self.encoder, self.decoder  # Seq2Seq's own know fewer settings than these
        self.reading, self.writing = Side(settings, width, settings.bidirectional), Side(settings, width)
        read, wrote = self.reading.output_size, self.writing.output_size
        self.keys = nn.Linear(read, wrote, bias=False) if settings.attention else None
        self.mix = nn.Linear(wrote + read, wrote) if settings.attention else None
        self.lower_heads = nn.ModuleList(nn.Linear(wrote, target_size) for _ in settings.supervised)
        spread_weights(self, settings)

    def forward(self, source: Tensor, target: Tensor, source_lengths: Lengths = None) -> Tensor:
        target = self._check_tokens("target", target, self.target_size)
        return self.follow(target.T, self.encode(source, source_lengths))[0].transpose(0, 1)

    def encode(self, source: Tensor, source_lengths: Lengths = None) -> Any:
        return self.read(source, source_lengths)[0]

    def step(self, state: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        tokens = self._check_tokens("tokens", tokens, self.target_size, rank=1)
        logits, found = self.follow(tokens.unsqueeze(0), state)
        return functional.log_softmax(logits[0], -1), found.state

    def read(self, source: Tensor, source_lengths: Lengths = None) -> tuple[Any, Tensor | None]:
        """The state in which the decoder starts, and what the encoder adds to the loss in training."""
        source, ends = self._check_source(source, source_lengths)
        found = self.reading.read(self.reading.drop_input(self.source_embedding(source.T)), lengths=ends)
        state = self.reading.meet(found.state)
        if self.keys is None:
            return (state,), found.extra
        memory = found.sequences[-1].transpose(0, 1)
        there = torch.arange(source.shape[1], device=ends.device) < ends.unsqueeze(1)
        return (state, self.keys(memory), memory, there.unsqueeze(1)), found.extra

    def follow(self, tokens: Tensor, state: Any, lengths: Tensor | None = None) -> tuple[Tensor, Reading]:
        """Logits of what follows each of `tokens` (time, rows), and what the decoder made of them."""
        start, *past = state
        found = self.writing.read(self.writing.drop_input(self.target_embedding(tokens)), start, lengths)
        features = found.sequences[-1]
        if self.mix is not None:
            keys, memory, there = past
            seen = functional.scaled_dot_product_attention(features.transpose(0, 1), keys, memory, attn_mask=there)
            features = torch.tanh(self.mix(torch.cat((features, seen.transpose(0, 1)), -1)))
        return self.head(self.writing.drop(features)), found._replace(state=(found.state, *past))


class Translator(ExampleLearner):
    """P(target | source), token by token."""

    def __init__(self, settings: TranslatorSettings, source_size: int, target_size: int, longest: int) -> None:
        super().__init__()
        self.network = Writer(settings, source_size, target_size)
        self.supervision = list(settings.supervised.values())
        self.beam, self.longest = settings.beam, longest

    def forward(self, batch: Batch, carried: Any = None, truth: float = 1.0) -> Outcome:  # noqa: ARG002
        found = self._run_free(batch, truth) if truth < 1 else self.score(batch)
        return self.judge(found, batch)._replace(lengths=_lengths(batch.targets))  # the output is the decoder's

    def score(self, batch: Batch) -> Scores:
        """Logits (time, rows, tokens) of each target's tokens after those before it; none where there is no target."""
        if batch.targets is None:
            return Scores([self.network.head.weight.new_zeros(0, len(batch.lengths), self.network.target_size)])
        state, extra = self.network.read(batch.inputs.T, batch.lengths)
        logits, found = self.network.follow(_before(batch.targets), state, _lengths(batch.targets))
        return self._score(logits, found, extra)

    def total(self, scores: Tensor, batch: Batch) -> Tensor:
        flat = scores.flatten(0, 1), batch.targets.flatten()
        return functional.cross_entropy(*flat, ignore_index=PADDING, reduction="sum")

    def answer(self, scores: Tensor, batch: Batch) -> Sequence[Decoded]:  # noqa: ARG002 - these know the target
        source = batch.inputs.T, batch.lengths, self.longest
        return self.network.greedy(*source) if self.beam == 1 else self.network.beam(*source, width=self.beam)

    def _run_free(self, batch: Batch, truth: float) -> Scores:
        steps: list[Reading] = []

        def predict(now: Tensor, state: Any) -> tuple[Tensor, Any]:
            logits, found = self.network.follow(now.unsqueeze(0), state)
            steps.append(found)
            return logits[0], found.state

        state, extra = self.network.read(batch.inputs.T, batch.lengths)
        logits, _ = free_run(predict, _before(batch.targets), state, truth)
        sequences = [torch.cat(level) for level in zip(*(one.sequences for one in steps), strict=True)]
        penalties = [one.extra for one in steps if one.extra is not None]
        mean = torch.stack(penalties).mean() if penalties else None
        return self._score(logits, Reading(sequences, None, mean), extra)

    def _score(self, logits: Tensor, found: Reading, extra: Tensor | None) -> Scores:
        """With the logits of lower layers' heads, and the penalties of both sides."""
        heads = zip(self.network.lower_heads, found.sequences[:-1], strict=True)
        lower = [head(self.network.writing.drop(sequence)) for head, sequence in heads]
        penalties = [one for one in (extra, found.extra) if one is not None]
        return Scores([*lower, logits], found.sequences[-1], torch.stack(penalties).sum() if penalties else None)


def _before(targets: Tensor) -> Tensor:
    """What the decoder reads where it is to write `targets`: the start, and all but the last step."""
    return torch.cat((torch.full_like(targets[:1], START), targets[:-1]))


def _lengths(targets: Tensor) -> Tensor:
    return (targets != PADDING).sum(0)


def _mean(a: Any, b: Any) -> Any:
    """Of two equally nested states."""
    return (a + b) / 2 if isinstance(a, Tensor) else type(a)(map(_mean, a, b))
