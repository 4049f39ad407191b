"""Optimisers by name, and their whole state as named tensors and plain facts, without pickle."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from unspool.errors import ArgumentError, DataError, UnknownNameError

NAMES = ("adam", "adamw", "sgd")

#: Rows of an embedding from which on it pays that an update touches only those that were read.
LARGE = 4096
#: Entries of a parameter group that say how a step is computed, not what: a checkpoint leaves them as they are.
_MEANS = ("params", "fused", "foreach", "capturable", "differentiable")


def make_optimiser(
    name: str,
    module_or_named_parameters: nn.Module | Iterable[tuple[str, nn.Parameter]],
    *,
    rate: float,
    momentum: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    weight_decay: float = 0.0,
    sparse: bool = False,
) -> Optimizer:
    """torch's "sgd", "adam" or "adamw" for all parameters that are trained.

    Weight decay acts on tensors of two or more dimensions only, and not on a module's embeddings: biases and gains are
    not what overfits, and words that no batch has would fade. Named parameters do not say which of them are embeddings.
    `momentum` is sgd's, `betas` are those of adam and adamw. `sparse` allows sparse gradients, by plain sgd.
    """
    if name not in NAMES:
        raise UnknownNameError.among("name", name, NAMES)
    _check_numbers(name, rate, momentum, betas, weight_decay)
    _check_sparse(name, module_or_named_parameters, momentum, weight_decay, sparse)
    groups = _groups(module_or_named_parameters, weight_decay)
    parameters = [parameter for group in groups for parameter in group["params"]]
    if not parameters:
        raise ArgumentError("There is no parameter to train. Give a module with parameters that require gradients.")
    fused = not sparse and _can_fuse(parameters)
    if name == "adam":
        return Adam(groups, lr=rate, betas=betas, fused=fused)
    if name == "adamw":
        return AdamW(groups, lr=rate, betas=betas, fused=fused)
    optimiser = SGD(groups, lr=rate, momentum=momentum, fused=fused)
    if momentum and fused:
        # Fused sgd fails on a parameter whose first gradient comes late. Velocities of 0 are what it would start from.
        for parameter in parameters:
            optimiser.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimiser


def make_sparse(module: nn.Module, *, plain: bool) -> bool:
    """Let the module's large embeddings have sparse gradients, if any can; `plain` descent alone gives the same so.

    An embedding that is a read-out's matrix too has a dense gradient anyway.
    """
    owners = [id(parameter) for _, parameter in module.named_parameters(remove_duplicate=False)]
    large = [
        table for table in _embeddings(module) if len(table.weight) >= LARGE and owners.count(id(table.weight)) == 1
    ]
    for table in large if plain else ():
        table.sparse = True
    return plain and bool(large)


def optimiser_tensors(optimiser: Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The whole state: copies of its tensors, such as "0.exp_avg" by the parameter's index, and facts fit for JSON.

    The index counts over the groups in their order, as in torch's `state_dict`.
    """
    parameters = _parameters(optimiser)
    tensors: dict[str, Tensor] = {}
    for index, parameter in enumerate(parameters):
        for key, value in optimiser.state.get(parameter, {}).items():
            if not isinstance(value, Tensor) or value.is_sparse:
                raise ArgumentError.of(
                    f"{index}.{key}", value, f"of {type(optimiser).__name__} is no dense tensor", "Use make_optimiser"
                )
            tensors[f"{index}.{key}"] = value.detach().clone(memory_format=torch.contiguous_format)
    return tensors, {**_facts(optimiser), "tensors": sorted(tensors)}


def load_optimiser(optimiser: Optimizer, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Takes up a state that `optimiser_tensors` gave, bit for bit; one that does not fit changes nothing."""
    parameters = _parameters(optimiser)
    _check_facts(_facts(optimiser), tensors, facts)
    states: list[dict[str, Tensor]] = [{} for _ in parameters]
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        if not index.isdecimal() or int(index) >= len(parameters):
            raise DataError(f"{name!r} names no parameter from 0 to {len(parameters) - 1}. Keep the names as given.")
        parameter = parameters[int(index)]
        shape = torch.Size() if key == "step" else parameter.shape
        if tensor.shape != shape or (key != "step" and tensor.dtype != parameter.dtype):
            raise DataError(
                f"{name!r} is {tuple(tensor.shape)} {tensor.dtype} where its parameter needs {tuple(shape)} "
                f"{parameter.dtype}. Load the state of an optimiser of the same model."
            )
        # Into memory laid out as the parameter's: a fused step goes through both side by side, blind to strides.
        like = tensor if key == "step" else parameter
        states[int(index)][key] = torch.empty_like(like, dtype=tensor.dtype, requires_grad=False).copy_(tensor)
    optimiser.state.clear()
    for parameter, state in zip(parameters, states, strict=True):
        if state:
            optimiser.state[parameter] = state
    for group, values in zip(optimiser.param_groups, facts["groups"], strict=True):
        group.update({key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


def _facts(optimiser: Optimizer) -> dict[str, Any]:
    """What an optimiser is and is set to; what of it may change on loading is in "groups"."""
    return {
        "optimiser": type(optimiser).__name__,
        "shapes": [list(parameter.shape) for parameter in _parameters(optimiser)],
        "sizes": [len(group["params"]) for group in optimiser.param_groups],
        "groups": [
            {
                key: list(value) if isinstance(value, tuple) else value
                for key, value in group.items()
                if key not in _MEANS
            }
            for group in optimiser.param_groups
        ],
    }


def _check_facts(ours: Mapping[str, Any], tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """The facts are those of the same kind of optimiser over the same parameters, and the tensors are complete."""
    for key in (*ours, "tensors"):
        if key not in facts:
            raise DataError(f"{key!r} is missing from the optimiser's facts. Give what optimiser_tensors gave.")
    if facts["optimiser"] != ours["optimiser"]:
        raise DataError(
            f"The state is that of {facts['optimiser']}, the optimiser is {ours['optimiser']}. Make the same one."
        )
    if len(facts["shapes"]) != len(ours["shapes"]):
        raise DataError(
            f"The state is for {len(facts['shapes'])} parameters where the optimiser has {len(ours['shapes'])}. Load "
            "the state of an optimiser of the same model."
        )
    for index, (theirs, own) in enumerate(zip(facts["shapes"], ours["shapes"], strict=True)):
        if list(theirs) != own:
            raise DataError(
                f"Parameter {index} is {tuple(own)} where the state is for {tuple(theirs)}. Load the state of an "
                "optimiser of a model of the same sizes."
            )
    if list(facts["sizes"]) != ours["sizes"]:
        raise DataError(
            f"The state is for groups of {facts['sizes']} parameters, the optimiser has groups of {ours['sizes']}. "
            "Make both from the same module, or both from named parameters."
        )
    if [sorted(group) for group in facts["groups"]] != [sorted(group) for group in ours["groups"]]:
        raise DataError("'groups' of the facts are not set as the optimiser's are. Give what optimiser_tensors gave.")
    if wrong := sorted(set(facts["tensors"]) ^ tensors.keys()):
        problem = "is not named in its facts" if wrong[0] in tensors else "is missing"
        raise DataError(f"{wrong[0]!r} of the optimiser's state {problem}. Keep tensors and facts together.")


def _parameters(optimiser: Optimizer) -> list[Tensor]:
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]


def _groups(given: nn.Module | Iterable[tuple[str, nn.Parameter]], weight_decay: float) -> list[dict[str, Any]]:
    """Parameters that decay and those that do not; a group without parameters is left out."""
    module = given if isinstance(given, nn.Module) else None
    named = given.named_parameters() if isinstance(given, nn.Module) else given
    spared = {id(parameter) for layer in _embeddings(module) for parameter in layer.parameters(recurse=False)}
    decayed: list[Tensor] = []
    undecayed: list[Tensor] = []
    for _, parameter in named:
        if parameter.requires_grad:
            (decayed if parameter.dim() >= 2 and id(parameter) not in spared else undecayed).append(parameter)
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": undecayed, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def _embeddings(module: nn.Module | None) -> list[nn.Embedding | nn.EmbeddingBag]:
    layers = [] if module is None else list(module.modules())
    return [layer for layer in layers if isinstance(layer, nn.Embedding | nn.EmbeddingBag)]


def _can_fuse(parameters: list[Tensor]) -> bool:
    """Whether torch's fused step, several times as fast, is right: it walks memory, and so needs dense rows."""
    return all(
        p.device.type == "cpu" and p.layout == torch.strided and p.is_floating_point() and p.is_contiguous()
        for p in parameters
    )


def _check_numbers(name: str, rate: float, momentum: float, betas: tuple[float, float], weight_decay: float) -> None:
    if not 0 < rate < math.inf:
        raise ArgumentError.of("rate", rate, "is not a number above 0", "Give 0.001 for adam, 0.1 to 1 for sgd")
    if not 0 <= momentum < 1:
        raise ArgumentError.of("momentum", momentum, "is not from 0 to below 1", "Give 0.9, or 0 for none")
    if momentum and name != "sgd":
        raise ArgumentError.of("momentum", momentum, f"is not read by {name}", "Give betas=(momentum, 0.999)")
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise ArgumentError.of("betas", betas, "are not two numbers from 0 to below 1", "Give (0.9, 0.999)")
    if not 0 <= weight_decay < math.inf:
        raise ArgumentError.of("weight_decay", weight_decay, "is not a number from 0", "Give 0.01, or 0 for none")


def _check_sparse(
    name: str,
    given: nn.Module | Iterable[tuple[str, nn.Parameter]],
    momentum: float,
    weight_decay: float,
    sparse: bool,
) -> None:
    if not sparse:
        layers = _embeddings(given if isinstance(given, nn.Module) else None)
        if any(layer.sparse for layer in layers):
            raise ArgumentError.of(
                "sparse", sparse, "does not suit a module with sparse embeddings", "Give sparse=True and use plain sgd"
            )
        return
    if name != "sgd":
        raise ArgumentError.of("name", name, "cannot take sparse gradients", "Use 'sgd', or sparse=False")
    for option, value in (("momentum", momentum), ("weight_decay", weight_decay)):
        if value:
            raise ArgumentError.of(
                option, value, "would touch every row, and gradients are sparse", f"Give {option}=0, or sparse=False"
            )
