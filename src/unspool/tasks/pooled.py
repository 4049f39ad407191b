"""Models that say one thing of a whole sequence: encoder, pooling, head; and the same without memory, to compare."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from unspool.data.inputs import Inputs
from unspool.errors import ArgumentError
from unspool.learning.contract import Apart, Outcome
from unspool.learning.settings import Effect
from unspool.nn import make_pooling
from unspool.tasks.body import OF_LAYERS, OF_OUTPUT, make_memoryless, spread_weights
from unspool.tasks.encoder import Encoder, EncoderSettings, embedding_width
from unspool.tasks.examples import Batch, ExampleLearner, Scores


class PooledSettings(EncoderSettings):
    """An encoder whose sequence becomes one vector."""

    effects = (
        *EncoderSettings.effects,
        Effect((*OF_LAYERS, *OF_OUTPUT, "bidirectional", "dropout", "pooling"), "reader", ("recurrent",)),
        Effect(("embedding",), "id_column", (None,)),
    )

    pooling: Literal["attention", "mean", "max", "last"] = Field(
        "attention", description="how a sequence becomes one vector"
    )
    reader: Literal["recurrent", "bag", "fcn", "cnn"] = Field(
        "recurrent", description="recurrent: layers with memory; bag, fcn and cnn have none, and are there to compare"
    )


class PooledModel(ExampleLearner):
    """Scores (rows, outputs) of sequences."""

    def __init__(self, settings: PooledSettings, inputs: Inputs, outputs: int) -> None:
        super().__init__()
        self.supervision = list(settings.supervised.values()) if settings.reader == "recurrent" else []
        self.reader: nn.Module
        if settings.reader == "recurrent":
            self.reader = Encoder(settings, tokens=inputs.tokens, features=inputs.features)
            width, both = self.reader.output_size, settings.bidirectional
            self.poolings = nn.ModuleList(
                make_pooling(settings.pooling, width, bidirectional=both) for _ in self.reader.levels
            )
        else:
            self.reader = MemorylessReader(settings, inputs)
            width = self.reader.output_size
        self.heads = nn.ModuleList(nn.Linear(width, outputs) for _ in (*self.supervision, None))
        spread_weights(self, settings)

    def score(self, batch: Batch) -> Scores:
        if not isinstance(self.reader, Encoder):
            return Scores([self.heads[0](self.reader(batch.inputs, batch.lengths))])
        found = self.reader.encode(batch.inputs, batch.lengths)
        levels = [self._say(level, one, batch) for level, one in enumerate(found.sequences)]
        return Scores(levels, found.sequences[-1], found.extra)

    def take_apart(self, batch: Batch) -> Apart:
        if not isinstance(self.reader, Encoder):
            problem = f"is not for a {type(self).__name__} without recurrent layers"
            raise ArgumentError.of("learn", "predictive-coding", problem, "Give reader='recurrent', or learn='bptt'")
        layers = self.reader.plain_layers()

        def judge(output: Tensor) -> Outcome:
            return self.judge(Scores([self._say(0, output, batch)], output), batch)

        return Apart(layers, self.reader.embed(batch.inputs), batch.lengths, judge)

    def _say(self, level: int, sequence: Tensor, batch: Batch) -> Tensor:
        """The scores by what one of the layers gave."""
        assert isinstance(self.reader, Encoder)
        scores: Tensor = self.heads[level](self.reader.drop(self.poolings[level](sequence, lengths=batch.lengths)))
        return scores


class MemorylessReader(nn.Module):
    """One vector a sequence by a baseline without memory."""

    def __init__(self, settings: PooledSettings, inputs: Inputs) -> None:
        super().__init__()
        width = inputs.features if inputs.tokens is None else embedding_width(settings)
        self.embedding = None if inputs.tokens is None else nn.Embedding(inputs.tokens, width)
        self.baseline = make_memoryless(settings.reader, width, settings.hidden)
        self.output_size = self.baseline.output_size

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        found: Tensor = self.baseline(inputs if self.embedding is None else self.embedding(inputs), lengths=lengths)
        return found
