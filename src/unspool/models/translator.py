"""Translator: a text in, another text out, by an encoder, attention and a decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from unspool.decoding.sequences import Decoded
from unspool.learning.contract import Outcome
from unspool.learning.teacher_forcing import free_run
from unspool.models.backbone import initialize_weights
from unspool.models.backbone_model import BackboneModel, Reading
from unspool.models.encoder import embedding_width
from unspool.models.example_model import Batch, ExampleLearner, Scores
from unspool.nn import Seq2Seq, Stack
from unspool.nn.leaves import map_leaves
from unspool.nn.seq2seq import Lengths
from unspool.settings.model import Seq2SeqSettings

#: Ids of both sides that stand for no text, and the first that does.
PADDING, START, END, FIRST = range(4)


class Side(BackboneModel):
    """The layers of the encoder, or of the decoder."""

    def __init__(self, settings: Seq2SeqSettings, input_size: int, bidirectional: bool = False) -> None:
        super().__init__()
        self.make_layers(settings, input_size, bidirectional)
        self.bidirectional, self.output_size = bidirectional, int(self.backbone.output_size)

    def merge_directions(self, state: Any) -> Any:
        """One state per layer: of a bidirectional layer, the mean of its two."""
        if not self.bidirectional:
            return state
        if isinstance(self.backbone, Stack):
            return [_mean(ahead, back) for ahead, back in state]
        # in the state of torch.nn's layers the two directions of a layer are neighbors
        return map_leaves(lambda part: part.unflatten(1, (-1, 2)).mean(2), state)


class AttentionSeq2Seq(Seq2Seq):
    """Seq2Seq with the layers of the settings, a bidirectional encoder and attention.

    With q_t the output of the decoder and m_s that of the encoder, attention is a_t = softmax_s(q_t · K m_s / √width),
    and the head reads tanh(W [q_t; Σ_s a_ts m_s] + b). The decoder starts from the mean of the states of both
    directions. The state is that of the decoder, with the keys and values that it attends to.
    """

    def __init__(self, settings: Seq2SeqSettings, source_size: int, target_size: int) -> None:
        width = embedding_width(settings)
        super().__init__(
            source_size, target_size, width, list(settings.sizes), settings.layers, cell=list(settings.cells)
        )
        # Seq2Seq's own layers know fewer settings. They are drawn all the same, so that a seed gives the same weights.
        del self.encoder, self.decoder
        self.encoder_side, self.decoder_side = Side(settings, width, settings.bidirectional), Side(settings, width)
        read, wrote = self.encoder_side.output_size, self.decoder_side.output_size
        self.keys = nn.Linear(read, wrote, bias=False) if settings.attention else None
        self.mix = nn.Linear(wrote + read, wrote) if settings.attention else None
        self.lower_heads = nn.ModuleList(nn.Linear(size, target_size) for size in self.decoder_side.level_sizes[:-1])
        initialize_weights(self, settings)

    def forward(self, source: Tensor, target: Tensor, source_lengths: Lengths = None) -> Tensor:
        target = self._check_tokens("target", target, self.target_size)
        return self.decode(target.T, self.encode(source, source_lengths))[0].transpose(0, 1)

    def encode(self, source: Tensor, source_lengths: Lengths = None) -> Any:
        return self.read(source, source_lengths)[0]

    def step(self, state: Any, tokens: Tensor) -> tuple[Tensor, Any]:
        tokens = self._check_tokens("tokens", tokens, self.target_size, rank=1)
        logits, found = self.decode(tokens.unsqueeze(0), state)
        return functional.log_softmax(logits[0], -1), found.state

    def read(self, source: Tensor, source_lengths: Lengths = None) -> tuple[Any, Tensor | None]:
        """The initial state of the decoder, and what the encoder adds to the loss in training."""
        source, ends = self._check_source(source, source_lengths)
        found = self.encoder_side.read(self.encoder_side.drop_input(self.source_embedding(source.T)), lengths=ends)
        state = self.encoder_side.merge_directions(found.state)
        if self.keys is None:
            return (state,), found.extra
        memory = found.sequences[-1].transpose(0, 1)
        there = torch.arange(source.shape[1], device=ends.device) < ends.unsqueeze(1)
        return (state, self.keys(memory), memory, there.unsqueeze(1)), found.extra

    def decode(self, tokens: Tensor, state: Any, lengths: Tensor | None = None) -> tuple[Tensor, Reading]:
        """Logits of what follows each of `tokens` (time, batch), and the output and state of the decoder."""
        start, *past = state
        found = self.decoder_side.read(self.decoder_side.drop_input(self.target_embedding(tokens)), start, lengths)
        features = found.sequences[-1]
        if self.mix is not None:
            keys, memory, there = past
            seen = functional.scaled_dot_product_attention(features.transpose(0, 1), keys, memory, attn_mask=there)
            features = torch.tanh(self.mix(torch.cat((features, seen.transpose(0, 1)), -1)))
        return self.head(self.decoder_side.drop(features)), found._replace(state=(found.state, *past))


class Translator(ExampleLearner):
    """P(target | source), token by token."""

    def __init__(self, settings: Seq2SeqSettings, source_size: int, target_size: int, longest: int) -> None:
        super().__init__()
        self.network = AttentionSeq2Seq(settings, source_size, target_size)
        self.supervision = list(settings.supervised.values())
        self.beam_size, self.longest = settings.beam_size, longest

    def token_embedding(self) -> nn.Embedding:
        return self.network.source_embedding

    def forward(self, batch: Batch, state: Any = None, teacher_forcing: float = 1.0) -> Outcome:  # noqa: ARG002
        found = self._run_free(batch, teacher_forcing) if teacher_forcing < 1 else self.score(batch)
        outcome = self.outcome(found, batch)  # whose output is the decoder's, as long as the targets
        return outcome._replace(lengths=_lengths(batch.targets), steps=batch.units if batch.steps else None)

    def score(self, batch: Batch) -> Scores:
        """Logits (time, batch, tokens) of the tokens of the targets, each after the true ones; none without targets."""
        if batch.targets is None:
            return Scores([self.network.head.weight.new_zeros(0, len(batch.lengths), self.network.target_size)])
        state, extra = self.network.read(batch.inputs.T, batch.lengths)
        logits, found = self.network.decode(_before(batch.targets), state, _lengths(batch.targets))
        return self._score(logits, found, extra, batch)

    def summed_loss(self, scores: Tensor, batch: Batch) -> Tensor:
        flat = scores.flatten(0, 1), batch.targets.flatten()
        return functional.cross_entropy(*flat, ignore_index=PADDING, reduction="sum")

    def predictions(self, scores: Tensor, batch: Batch) -> Sequence[Decoded]:  # noqa: ARG002 - scores follow the true tokens
        source = batch.inputs.T, batch.lengths, self.longest
        return self.network.greedy(*source) if self.beam_size == 1 else self.network.beam(*source, width=self.beam_size)

    def _run_free(self, batch: Batch, teacher_forcing: float) -> Scores:
        steps: list[Reading] = []

        def predict(now: Tensor, state: Any) -> tuple[Tensor, Any]:
            logits, found = self.network.decode(now.unsqueeze(0), state)
            steps.append(found)
            return logits[0], found.state

        state, extra = self.network.read(batch.inputs.T, batch.lengths)
        logits, _ = free_run(predict, _before(batch.targets), state, teacher_forcing)
        sequences = [torch.cat(level) for level in zip(*(one.sequences for one in steps), strict=True)]
        penalties = [one.extra for one in steps if one.extra is not None]
        mean = torch.stack(penalties).mean() if penalties else None
        return self._score(logits, Reading(sequences, None, mean), extra, batch)

    def _score(self, logits: Tensor, found: Reading, extra: Tensor | None, batch: Batch) -> Scores:
        """Logits of the top and of the lower heads, and the penalties of both sides."""
        heads = zip(self.network.lower_heads, found.sequences[:-1], strict=True)
        lower = [head(self.network.decoder_side.drop(sequence)) for head, sequence in heads]
        own = found.extra
        if own is not None and batch.steps is not None:  # a mean over targets, not over sources as `outcome` takes it
            own = own * (float(_lengths(batch.targets).sum()) / batch.units / batch.penalty_share())
        penalties = [one for one in (extra, own) if one is not None]
        return Scores([*lower, logits], found.sequences[-1], torch.stack(penalties).sum() if penalties else None)


def _before(targets: Tensor) -> Tensor:
    """The input of the decoder for `targets`: the start token, and all but the last step."""
    return torch.cat((torch.full_like(targets[:1], START), targets[:-1]))


def _lengths(targets: Tensor) -> Tensor:
    return (targets != PADDING).sum(0)


def _mean(a: Any, b: Any) -> Any:
    """Of two equally nested states."""
    return (a + b) / 2 if isinstance(a, Tensor) else type(a)(map(_mean, a, b))
