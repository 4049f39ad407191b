"""torch.nn's layers and ours: they are called alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unspool import nn as ours
from unspool.lab.bench.cases import Array, Case
from unspool.lab.bench.contestants.contestant import Contestant
from unspool.lab.bench.timing import Call

TORCH: dict[str, Any] = {"elman": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
OURS: dict[str, Any] = {"elman": ours.RNN, "gru": ours.GRU, "lstm": ours.LSTM}


def torch_nn(case: Case, threads: int) -> Contestant:  # noqa: ARG001 - torch's threads are the process's
    """torch.nn.RNN, GRU or LSTM."""
    return _contestant(TORCH, case)


def unspool(case: Case, threads: int) -> Contestant:  # noqa: ARG001 - our threads follow torch's
    """unspool.nn.RNN, GRU or LSTM."""
    return _contestant(OURS, case)


def layer_of(kinds: dict[str, Any], case: Case) -> tuple[nn.RNNBase, Tensor]:
    """The layer with the case's weights, and its input."""
    layer: nn.RNNBase = kinds[case.cell](case.point.I, case.point.H)
    with torch.no_grad():
        for parameter, value in zip(layer.parameters(), case.weights, strict=True):
            parameter.copy_(torch.from_numpy(value))
    return layer, torch.from_numpy(case.x)


def of_module(
    module: nn.Module,
    forward: Call,
    gradients: Call | None = None,
    output: Callable[[Any], Array] = np.asarray,
) -> Contestant:
    """A module whose output `forward` returns; `gradients` puts those of its parameters into another order."""
    parameters = list(module.parameters())

    def infer() -> Any:
        with torch.no_grad():
            return forward()

    def train() -> Any:
        for parameter in parameters:
            parameter.grad = None
        forward().sum().backward()
        return gradients() if gradients else [parameter.grad for parameter in parameters]

    return Contestant(infer, train, output)


def _contestant(kinds: dict[str, Any], case: Case) -> Contestant:
    layer, x = layer_of(kinds, case)
    return of_module(layer, lambda: layer(x)[0])
