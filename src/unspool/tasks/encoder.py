"""Encoder: a sequence of tokens or of numbers in, the sequences of its recurrent layers out."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from unspool.errors import ArgumentError
from unspool.learning.settings import NotNegative, Size
from unspool.nn import Stack
from unspool.nn.regularised import drop_units
from unspool.tasks.body import BodySettings, make_body


class EncoderSettings(BodySettings):
    """Recurrent layers that read a whole sequence before anything is said of it."""

    hidden: Size = Field(128, description="units of each layer and direction")
    bidirectional: bool = Field(True, description="layers read from both ends")
    embedding: Size | None = Field(None, description="width of a token's vector; as wide as a layer, at most 128")
    supervision: NotNegative | tuple[NotNegative, ...] = Field(
        0.0, description="weight of an auxiliary loss on each layer below the top; one for all, or one each"
    )

    @model_validator(mode="after")
    def _fits_layers(self) -> Self:
        if isinstance(self.supervision, tuple) and len(self.supervision) != self.layers - 1:
            problem = f"is not one weight for each of the {self.layers - 1} layer(s) below the top"
            raise ArgumentError.of("supervision", self.supervision, problem, "Give one number for all of them")
        if self.supervised and self.engine == "torch":
            raise ArgumentError.of("supervision", self.supervision, "needs every layer's output", "Take engine kernel")
        return self

    @property
    def supervised(self) -> dict[int, float]:
        """Layers below the top that have heads of their own, by number, and the weights of their losses."""
        given = self.supervision
        weights = given if isinstance(given, tuple) else (given,) * (self.layers - 1)
        return {level: weight for level, weight in enumerate(weights) if weight}


class Encoder(nn.Module):
    """Embedding, where sequences are of tokens, and recurrent layers over it."""

    def __init__(self, settings: EncoderSettings, *, tokens: int | None = None, features: int = 0) -> None:
        super().__init__()
        self.dropout, self.variational = settings.dropout, settings.variational
        self.embedding = None if tokens is None else nn.Embedding(tokens, embedding_width(settings))
        width = features if self.embedding is None else self.embedding.embedding_dim
        self.body = make_body(settings, width, settings.bidirectional)
        self.levels = [*settings.supervised, settings.layers - 1]
        self.output_size = settings.hidden * (1 + settings.bidirectional)

    def forward(self, inputs: Tensor, lengths: Tensor) -> list[Tensor]:
        """Sequences (time, rows, width) of the layers that have heads, from the lowest up; the last is the top's."""
        x = self.drop(inputs if self.embedding is None else self.embedding(inputs))
        if len(self.levels) == 1 or not isinstance(self.body, Stack):
            return [self.body(x, lengths=lengths)[0]]
        sequences, _ = self.body(x, lengths=lengths, every_layer=True)
        return [sequences[level] for level in self.levels]

    def drop(self, values: Tensor) -> Tensor:
        """Dropout of a sequence, or of one vector a row, as the settings have it."""
        if self.variational and values.dim() == 3:
            return drop_units(values, self.dropout, self.training)
        return functional.dropout(values, self.dropout, self.training)


def embedding_width(settings: EncoderSettings) -> int:
    """Of a token's vector."""
    return settings.embedding or min(settings.hidden, 128)
