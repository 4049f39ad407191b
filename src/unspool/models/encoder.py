"""Encoder: a sequence of tokens or of numbers in, the output of its recurrent layers out."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from unspool.models.backbone_model import BackboneModel, Reading
from unspool.settings.model import EncoderSettings


class Encoder(BackboneModel):
    """An embedding, where sequences are of tokens, and recurrent layers over it.

    Args:
        settings: Those of the layers.
        features: The width of a step, where there is no embedding.
        embedding: What makes vectors of tokens.
    """

    def __init__(self, settings: EncoderSettings, features: int = 0, embedding: nn.Embedding | None = None) -> None:
        super().__init__()
        self.embedding = embedding
        self.input_size = features if embedding is None else embedding.embedding_dim
        self.make_layers(settings, self.input_size, settings.bidirectional, getattr(settings, "time_delay", 0))
        self.output_size: int = self.backbone.output_size

    def encode(self, inputs: Any, lengths: Tensor) -> Reading:
        """Sequences (time, batch, width) of the layers that have heads, and what they add to the loss in training."""
        return self.read(self.embed(inputs), lengths=lengths)

    def embed(self, inputs: Any) -> Tensor:
        """The input of the lowest layer."""
        return self.drop_input(inputs if self.embedding is None else self.embedding(inputs))


def embedding_width(settings: EncoderSettings) -> int:
    """The size of the token embedding."""
    return settings.embedding or min(settings.sizes[0], 128)
