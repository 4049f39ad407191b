"""Inputs: the size of what the lowest layers read, where it comes from the data and not from weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unspool.insight.recording import Recording

Array = NDArray[np.float64]

#: Features whose sizes are kept.
SHOWN = 64
#: A feature that is zero at more than this fraction of places, as in a one-hot code, is not compared with others.
SPARSE = 0.5


@dataclass(frozen=True, eq=False)
class Inputs:
    """The sizes of the numbers that each layer reads from the data; layers that read other layers are not here."""

    labels: tuple[str, ...]
    largest: Array  # (layers,): root mean square of the largest feature
    norm: Array  # (layers,): root mean square of the norm of a step's input
    unequal: Array  # (layers,): deviation of the feature that varies most over that of the one that varies least
    sizes: tuple[Array, ...]  # (features,) of each layer: root mean squares, at most 64

    def shared(self) -> dict[int, list[str]]:
        """Places of layers that read different inputs, each with the labels of all that read the same."""
        groups: dict[int, list[str]] = {}
        for number, label in enumerate(self.labels):
            alike = (first for first in groups if self._alike(first, number))
            groups.setdefault(next(alike, number), []).append(label)
        return groups

    def _alike(self, one: int, other: int) -> bool:
        first, second = (np.append(self.sizes[n], (self.norm[n], self.unequal[n])) for n in (one, other))
        return len(first) == len(second) and bool(np.allclose(first, second, rtol=1e-9, atol=0))


def measure_inputs(recording: Recording) -> Inputs:
    """The sizes of the features that the lowest layers read from the data.

    Args:
        recording: a model over a batch.

    Returns:
        The sizes; of no layer if the model learns what its layers read, as an embedding does.

    Example:
        >>> layer, x = unspool.nn.Recurrent("gru", 2, 4), torch.randn(20, 8, 2) * torch.tensor([1.0, 500.0])
        >>> bool(measure_inputs(record(layer, lambda layer: layer(x)[0].sum())).unequal[0] > 300)
        True
    """
    read = [recording.calls[number] for number in recording.entrances]
    labels = {layer.name: layer.label for layer in recording.layers}
    first = {call.layer.name: call for call in reversed(read) if not call.x.requires_grad and call.layer.live.any()}
    values = {labels[name]: call.layer.x[call.layer.live].numpy() for name, call in first.items()}
    sizes = [np.sqrt(np.square(each).mean(0)) for each in values.values()]
    return Inputs(
        labels=tuple(values),
        largest=np.array([size.max() for size in sizes]),
        norm=np.array([np.linalg.norm(size) for size in sizes]),
        unequal=np.array([_unequal(each) for each in values.values()]),
        sizes=tuple(size[:SHOWN] for size in sizes),
    )


def _unequal(values: Array) -> float:
    """The largest deviation of a feature over the smallest, of those that vary and are not sparse."""
    deviations = values.std(0)[((values == 0).mean(0) <= SPARSE) & (values.std(0) > 0)]
    return float(deviations.max() / deviations.min()) if len(deviations) > 1 else 1.0
