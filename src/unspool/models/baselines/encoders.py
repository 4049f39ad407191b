"""Baselines in place of recurrent layers: parts of a model that read a sequence without memory."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from unspool.models.backbone_model import Reading
from unspool.models.baselines.memoryless import BagOfVectors, Convolution, SharedFCN, StatelessMLP
from unspool.settings.model import Backbone, ForecasterSettings, PooledSettings, TaggerSettings

#: Steps that a convolution sees at once.
KERNEL_SIZE = 3


def make_memoryless(
    settings: PooledSettings | ForecasterSettings, width: int
) -> BagOfVectors | SharedFCN | Convolution:
    """What makes one vector of a sequence without memory.

    Args:
        settings: The backbone ("bag", "fcn" or "cnn"), its units or channels, and the layers of a convolution.
        width: Of a step.
    """
    hidden = settings.sizes[-1]
    if settings.backbone == "bag":
        return BagOfVectors(width, mean=True)
    if settings.backbone == "fcn":
        return SharedFCN(width, hidden, hidden)
    return Convolution(width, hidden, KERNEL_SIZE, layers=settings.cnn_layers)


class StatelessBackbone(nn.Module):
    """An MLP at every step, called as a backbone is."""

    def __init__(self, settings: Backbone, input_size: int) -> None:
        super().__init__()
        self.output_size = settings.sizes[-1]
        self.network = StatelessMLP(input_size, self.output_size, self.output_size)

    def forward(self, x: Tensor, state: Any = None, *, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """The output, and a state that holds nothing."""
        return self.network(x, lengths=lengths), state or ()

    def initial_state(self, rows: int, like: Tensor) -> Any:  # noqa: ARG002
        """Nothing."""
        return ()


class MemorylessEncoder(nn.Module):
    """One vector per sequence of tokens or numbers, in place of an encoder and its pooling.

    Args:
        settings: The kind of baseline, its sizes and dropout.
        features: The width of a step, where there is no embedding.
        embedding: What makes vectors of tokens.
    """

    def __init__(self, settings: PooledSettings, features: int = 0, embedding: nn.Embedding | None = None) -> None:
        super().__init__()
        self.embedding = embedding
        self.baseline = make_memoryless(settings, features if embedding is None else embedding.embedding_dim)
        self.output_size = self.baseline.output_size
        self.drop = nn.Dropout(0.0 if settings.dropout == "auto" else settings.dropout)

    def forward(self, inputs: Any, lengths: Tensor) -> Tensor:
        """One vector per sequence. Dropout acts where it does in a recurrent model: on input and output."""
        x = self.drop(inputs if self.embedding is None else self.embedding(inputs))
        found: Tensor = self.drop(self.baseline(x, lengths=lengths))
        return found


class MemorylessPast(nn.Module):
    """One vector per past of a forecast."""

    def __init__(self, settings: ForecasterSettings, width: int) -> None:
        super().__init__()
        self.dropout = 0.0 if settings.dropout == "auto" else settings.dropout
        self.baseline = make_memoryless(settings, width)
        self.level_sizes = [self.baseline.output_size]

    def forward(self, x: Tensor) -> tuple[list[Tensor], None, None]:
        """As the recurrent layers over a past: vectors, no sequence, nothing to add to the loss."""
        return [self.baseline(x)], None, None

    def drop(self, values: Tensor) -> Tensor:
        """Dropout."""
        return functional.dropout(values, self.dropout, self.training)


class WordwiseEncoder(nn.Module):
    """A network that knows one word at a time, in place of the encoder of a tagger."""

    def __init__(self, settings: TaggerSettings, width: int) -> None:
        super().__init__()
        self.output_size = settings.sizes[-1]
        self.level_sizes = [self.output_size]
        self.network = StatelessMLP(width, self.output_size, self.output_size)
        self.drop = nn.Dropout(0.0 if settings.dropout == "auto" else settings.dropout)

    def encode(self, inputs: Tensor, lengths: Tensor) -> Reading:
        """One sequence, as an encoder gives it."""
        return Reading([self.network(self.drop(inputs), lengths=lengths)], None, None)
