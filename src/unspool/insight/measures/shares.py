"""Weight shares: the share of each time step in the gradient of the shared weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unspool.insight.linear_step import Term
from unspool.insight.measures.flow import norm_of, padded
from unspool.insight.recorded_layer import RecordedLayer
from unspool.insight.recording import Gradient, Recording

Array = NDArray[np.float64]

#: Numbers of the states of those steps that are looked at together.
NUMBERS = 2**19


@dataclass(frozen=True, eq=False)
class WeightShares:
    """The gradient G = Σ_t G_t of all parameters of a layer, split by the step t that used them.

    A step that no sequence has contributes 0. A layer whose whole gradient is zero has NaN for shares.
    """

    labels: tuple[str, ...]
    shares: Array  # (layers, time): ⟨G_t, G⟩ / ‖G‖², which sum to 1; negative if a step pulls the other way
    norms: Array  # (layers, time): ‖G_t‖


def measure_shares(recording: Recording, gradient: Gradient | None = None) -> WeightShares:
    """Shares by step."""
    whole = recording.gradient() if gradient is None else gradient
    found = [_split(layer, whole.states[layer.name], whole.parameters[layer.name]) for layer in recording.layers]
    return WeightShares(
        labels=recording.labels,
        shares=padded([shares for shares, _ in found], 0.0),
        norms=padded([norms for _, norms in found], 0.0),
    )


def _split(layer: RecordedLayer, states: Tensor, parameters: Mapping[str, Tensor]) -> tuple[Array, Array]:
    """Shares and norms of all steps, some at a time.

    The gradient of a matrix is a sum of outer products g ⊗ v over sequences. Its product with another matrix, and its
    norm, follow from products of the vectors, so that the gradient of a step is never formed.
    """
    size = norm_of(torch.tensor([norm_of(value) for value in parameters.values()], dtype=torch.float64))
    direction = {name: value / size for name, value in parameters.items()} if size else {}
    shares, norms = np.zeros(len(states)), np.zeros(len(states))
    together = max(1, NUMBERS // max(1, states[:1].numel()))
    for first in range(0, len(states), together):
        part = slice(first, first + together)
        step = layer.linear.at(layer.x[part], layer.before[part])
        pulled = step.pull(states[part] * layer.live[part].unsqueeze(-1), to_input=False, to_states=False)
        terms = list(step.terms(pulled))
        norms[part] = _norms(terms, len(states[part]))
        if size:
            along = [_along(term, direction) for term in terms]
            shares[part] = torch.stack(along).sum(0).numpy() / size if along else 0.0
    return shares if size else np.full_like(shares, np.nan), norms


def _along(term: Term, direction: Mapping[str, Tensor]) -> Tensor:
    """The product of each step's gradient with a direction, (steps,)."""
    others = [direction[name] for name in term.names]
    moved = torch.cat([one.flatten() for one in others]) if term.v is None else term.v @ torch.cat(others).T
    return (term.g * moved).sum((-1, -2))


def _norms(terms: Sequence[Term], steps: int) -> Array:
    """The norm of each step's gradient, (steps,); terms of the same parameter are added before."""
    largest = torch.stack([term.g.abs().amax((-1, -2)) for term in terms] or [torch.zeros(steps)]).amax(0).double()
    scale = torch.where((largest > 0) & largest.isfinite(), largest, 1.0)  # so that squares do not underflow
    square = torch.zeros(steps, dtype=torch.float64)
    for number, one in enumerate(terms):
        for other in terms[: number + 1]:
            if one.names == other.names:
                products = (one.g / scale[:, None, None]) @ (other.g / scale[:, None, None]).mT
                if one.v is not None and other.v is not None:
                    products = products * (one.v @ other.v.mT)
                square += products.sum((-1, -2)) * (1 if one is other else 2)
    return (scale * square.clamp(min=0).sqrt()).numpy()
