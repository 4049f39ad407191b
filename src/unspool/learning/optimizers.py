"""Optimizers by name, for the parameters of a model."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from unspool.errors import ArgumentError, UnknownNameError

NAMES = ("adam", "adamw", "sgd")

#: Entries of an embedding from which on it pays that an update touches only those that were read.
LARGE = 4096


def make_optimizer(
    name: str,
    module_or_named_parameters: nn.Module | Iterable[tuple[str, nn.Parameter]],
    *,
    lr: float,
    momentum: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    weight_decay: float = 0.0,
    sparse: bool = False,
) -> Optimizer:
    """torch's optimizer of this name, for all parameters that require gradients.

    Weight decay acts on tensors of two or more dimensions only, and not on a module's embeddings: biases and gains are
    not what overfits, and words that no batch has would fade.

    Args:
        name: "sgd", "adam" or "adamw".
        module_or_named_parameters: A module, or pairs (name, parameter). Pairs do not tell which are embeddings.
        lr: The learning rate.
        momentum: Of sgd.
        betas: Of adam and adamw.
        weight_decay: Of matrices.
        sparse: Allow sparse gradients, with plain sgd only.

    Returns:
        The optimizer, with torch's fused step where that applies.

    Example:
        optimizer = make_optimizer("adamw", model, lr=3e-3, weight_decay=0.01)
    """
    if name not in NAMES:
        raise UnknownNameError.among("name", name, NAMES)
    _check_numbers(name, lr, momentum, betas, weight_decay)
    _check_sparse(name, module_or_named_parameters, momentum, weight_decay, sparse)
    groups = _groups(module_or_named_parameters, weight_decay)
    parameters = [*chain.from_iterable(group["params"] for group in groups)]
    if not parameters:
        raise ArgumentError("There is no parameter to train. Give a module with parameters that require gradients.")
    _check_range(lr, parameters)
    fused = not sparse and _can_fuse(parameters)
    if name != "sgd":
        return (Adam if name == "adam" else AdamW)(groups, lr=lr, betas=betas, fused=fused)
    optimizer = SGD(groups, lr=lr, momentum=momentum, fused=fused)
    if momentum and fused:
        _start_velocities(optimizer, parameters)
    return optimizer


def _start_velocities(optimizer: SGD, parameters: Iterable[Tensor]) -> None:
    """Fused sgd fails on a parameter whose first gradient comes late. Velocities of 0 are what it would start from."""
    for parameter in parameters:
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


def make_sparse(module: nn.Module, *, plain: bool) -> bool:
    """Give large embeddings sparse gradients, if updates are `plain` sgd, which alone gives the same result with them.

    An embedding that shares its matrix with the head has a dense gradient anyway, and of a bag a batch reads most rows.

    Returns:
        Whether any embedding is sparse now.
    """
    large = _large_embeddings(module) if plain else []
    for table in large:
        table.sparse = True
    return bool(large)


def _large_embeddings(module: nn.Module) -> list[nn.Embedding]:
    """Large embeddings that share their matrix with nothing."""
    owners = [id(parameter) for _, parameter in module.named_parameters(remove_duplicate=False)]
    tables = [table for table in _embeddings(module) if isinstance(table, nn.Embedding)]
    return [table for table in tables if len(table.weight) >= LARGE and owners.count(id(table.weight)) == 1]


def _groups(given: nn.Module | Iterable[tuple[str, nn.Parameter]], weight_decay: float) -> list[dict[str, Any]]:
    """Parameters that decay and those that do not; a group without parameters is left out."""
    named = given.named_parameters() if isinstance(given, nn.Module) else given
    spared = {id(layer.weight) for layer in _embeddings(given)}
    trained = [parameter for _, parameter in named if parameter.requires_grad]
    decayed: list[Tensor] = []
    undecayed: list[Tensor] = []
    for parameter in trained:
        decays = parameter.dim() >= 2 and id(parameter) not in spared
        (decayed if decays else undecayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": undecayed, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def _embeddings(given: nn.Module | Iterable[Any]) -> list[nn.Embedding | nn.EmbeddingBag]:
    layers = given.modules() if isinstance(given, nn.Module) else ()
    return [layer for layer in layers if isinstance(layer, nn.Embedding | nn.EmbeddingBag)]


def _can_fuse(parameters: list[Tensor]) -> bool:
    """Whether torch's fused step, several times as fast, applies: it walks memory, and so needs dense tensors."""
    return all(
        p.device.type == "cpu" and p.layout == torch.strided and p.is_floating_point() and p.is_contiguous()
        for p in parameters
    )


def _check_numbers(name: str, lr: float, momentum: float, betas: tuple[float, float], weight_decay: float) -> None:
    if not 0 < lr < math.inf:
        raise ArgumentError.of("lr", lr, "is not a number above 0", "Give 0.001 for adam, 0.1 to 1 for sgd")
    _check_momentum(name, momentum)
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise ArgumentError.of("betas", betas, "are not two numbers from 0 to below 1", "Give (0.9, 0.999)")
    if not 0 <= weight_decay < math.inf:
        raise ArgumentError.of("weight_decay", weight_decay, "is not a number from 0", "Give 0.01, or 0 for none")


def _check_momentum(name: str, momentum: float) -> None:
    if not 0 <= momentum < 1:
        raise ArgumentError.of("momentum", momentum, "is not from 0 to below 1", "Give 0.9, or 0 for none")
    if momentum and name != "sgd":
        raise ArgumentError.of("momentum", momentum, f"has no effect on {name}", "Give `betas=(momentum, 0.999)`")


def _check_range(lr: float, parameters: list[Tensor]) -> None:
    """Refuse a learning rate that the type of a parameter does not have: torch fails, or computes with infinity."""
    limit = min((torch.finfo(one.dtype).max for one in parameters if one.is_floating_point()), default=math.inf)
    if lr > limit:
        remedy = "Give 0.001 for adam, 0.1 to 1 for sgd"
        raise ArgumentError.of("lr", lr, f"is beyond {limit:.2g}, the largest number of the parameters' type", remedy)


def _check_sparse(
    name: str,
    given: nn.Module | Iterable[tuple[str, nn.Parameter]],
    momentum: float,
    weight_decay: float,
    sparse: bool,
) -> None:
    if not sparse:
        _check_no_sparse_embedding(given, sparse)
        return
    if name != "sgd":
        raise ArgumentError.of("name", name, "cannot take sparse gradients", "Use 'sgd', or sparse=False")
    for option, value in (("momentum", momentum), ("weight_decay", weight_decay)):
        if value:
            raise ArgumentError.of(
                option, value, "would change every entry, and gradients are sparse", f"Give {option}=0, or sparse=False"
            )


def _check_no_sparse_embedding(given: nn.Module | Iterable[Any], sparse: bool) -> None:
    if any(layer.sparse for layer in _embeddings(given)):
        raise ArgumentError.of(
            "sparse", sparse, "does not suit a module with sparse embeddings", "Give sparse=True and use plain sgd"
        )
