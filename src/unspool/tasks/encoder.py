"""Encoder: a sequence of tokens or of numbers in, the sequences of its recurrent layers out."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor, nn

from unspool.learning.settings import Size
from unspool.tasks.body import BodySettings
from unspool.tasks.layered import Layered, Reading


class EncoderSettings(BodySettings):
    """Recurrent layers that read a whole sequence before anything is said of it."""

    hidden: Size = Field(128, description="units of each layer and direction")
    bidirectional: bool = Field(True, description="layers read from both ends")
    embedding: Size | None = Field(None, description="width of a token's vector; as wide as a layer, at most 128")


class Encoder(Layered):
    """Embedding, where sequences are of tokens, and recurrent layers over it."""

    def __init__(self, settings: EncoderSettings, *, tokens: int | None = None, features: int = 0) -> None:
        super().__init__()
        self.embedding = None if tokens is None else nn.Embedding(tokens, embedding_width(settings))
        width = features if self.embedding is None else self.embedding.embedding_dim
        self.make_layers(settings, width, settings.bidirectional)
        self.output_size = settings.hidden * (1 + settings.bidirectional)

    def encode(self, inputs: Tensor, lengths: Tensor) -> Reading:
        """Sequences (time, rows, width) of the layers that have heads, and what they add to the loss in training."""
        return self.read(self.embed(inputs), lengths=lengths)

    def embed(self, inputs: Tensor) -> Tensor:
        """What the lowest layer reads."""
        return self.drop_input(inputs if self.embedding is None else self.embedding(inputs))


def embedding_width(settings: EncoderSettings) -> int:
    """Of a token's vector."""
    return settings.embedding or min(settings.hidden, 128)
