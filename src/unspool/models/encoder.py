"""Encoder: a sequence of tokens or of numbers in, the output of its recurrent layers out."""

from __future__ import annotations

from torch import Tensor, nn

from unspool.models.backbone_model import BackboneModel, Reading
from unspool.settings.model import EncoderSettings


class Encoder(BackboneModel):
    """An embedding, where sequences are of tokens, and recurrent layers over it."""

    def __init__(self, settings: EncoderSettings, *, tokens: int | None = None, features: int = 0) -> None:
        super().__init__()
        self.embedding = None if tokens is None else nn.Embedding(tokens, embedding_width(settings))
        width = features if self.embedding is None else self.embedding.embedding_dim
        self.make_layers(settings, width, settings.bidirectional, getattr(settings, "time_delay", 0))
        self.output_size: int = self.backbone.output_size

    def encode(self, inputs: Tensor, lengths: Tensor) -> Reading:
        """Sequences (time, batch, width) of the layers that have heads, and what they add to the loss in training."""
        return self.read(self.embed(inputs), lengths=lengths)

    def embed(self, inputs: Tensor) -> Tensor:
        """The input of the lowest layer."""
        return self.drop_input(inputs if self.embedding is None else self.embedding(inputs))


def embedding_width(settings: EncoderSettings) -> int:
    """The size of the token embedding."""
    return settings.embedding or min(settings.sizes[0], 128)
