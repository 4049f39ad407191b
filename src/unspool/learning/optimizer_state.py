"""The whole state of an optimizer as named tensors and JSON, without pickle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor
from torch.optim import Optimizer

from unspool.cells.numbers import is_number
from unspool.errors import ArgumentError, DataError

#: Entries of a parameter group that say how a step is computed, not what: a checkpoint leaves them as they are.
_MEANS = ("params", "fused", "foreach", "capturable", "differentiable")

#: What each optimizer of `make_optimizer` keeps of a parameter: all of it, or nothing before its first update.
_KEPT = {
    "Adam": ("exp_avg", "exp_avg_sq", "step"),
    "AdamW": ("exp_avg", "exp_avg_sq", "step"),
    "SGD": ("momentum_buffer",),
}


class OptimizerFacts(BaseModel):
    """What `optimizer_tensors` says of an optimizer, in the types of JSON."""

    model_config = ConfigDict(strict=True)

    optimizer: str
    shapes: list[list[int]]
    sizes: list[int]
    groups: list[dict[str, Any]]
    tensors: list[str]


def optimizer_tensors(optimizer: Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The whole state of an optimizer: copies of its tensors by name, and its settings, fit for JSON.

    A name is such as "0.exp_avg"; the parameter's index counts over the groups in order, as in torch's `state_dict`.
    """
    parameters = _parameters(optimizer)
    tensors: dict[str, Tensor] = {}
    for index, parameter in enumerate(parameters):
        for key, value in optimizer.state.get(parameter, {}).items():
            if not isinstance(value, Tensor) or value.is_sparse:
                raise ArgumentError.of(
                    f"{index}.{key}", value, f"of {type(optimizer).__name__} is no dense tensor", "Use make_optimizer"
                )
            tensors[f"{index}.{key}"] = value.detach().clone(memory_format=torch.contiguous_format)
    return tensors, {**_facts(optimizer), "tensors": sorted(tensors)}


def load_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Restore a state that `optimizer_tensors` gave, bit for bit; one that does not fit changes nothing.

    Raises:
        DataError: It is the state of another kind of optimizer, or of other parameters.
    """
    parameters = _parameters(optimizer)
    _check_facts(_facts(optimizer), tensors, facts)
    states: list[dict[str, Tensor]] = [{} for _ in parameters]
    for name, tensor in tensors.items():
        index, key = _read_name(name, len(parameters))
        states[index][key] = _like_parameter(name, key, tensor, parameters[index])
    _check_complete(states, _KEPT.get(type(optimizer).__name__))
    optimizer.state.clear()
    optimizer.state.update({parameter: state for parameter, state in zip(parameters, states, strict=True) if state})
    for group, values in zip(optimizer.param_groups, facts["groups"], strict=True):
        group.update({key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


def _check_complete(states: list[dict[str, Tensor]], kept: tuple[str, ...] | None) -> None:
    for index, state in enumerate(states):
        if state and kept is not None and tuple(sorted(state)) != kept:
            raise DataError(
                f"The state of parameter {index} has {', '.join(sorted(state))}, and the optimizer needs "
                f"{', '.join(kept)}. Give what optimizer_tensors gave."
            )


def _read_name(name: str, count: int) -> tuple[int, str]:
    """The index of a parameter and the key of its state, from a name such as "0.exp_avg"."""
    index, _, key = name.partition(".")
    if not index.isdecimal() or int(index) >= count:
        raise DataError(f"{name!r} names no parameter from 0 to {count - 1}. Keep the names as given.")
    return int(index), key


def _like_parameter(name: str, key: str, tensor: Tensor, parameter: Tensor) -> Tensor:
    """A copy of a tensor of the state, in the memory layout of its parameter; one that does not fit is refused."""
    if key == "step":
        shape, like, fits = torch.Size(), tensor, _counts_updates(tensor)
    else:
        shape, like, fits = parameter.shape, parameter, tensor.dtype == parameter.dtype
    if tensor.shape != shape or not fits:
        raise DataError(
            f"{name!r} is {tuple(tensor.shape)} {tensor.dtype} where its parameter needs {tuple(shape)} "
            f"{parameter.dtype}. Load the state of an optimizer of the same model."
        )
    # The layout matters: a fused step goes through both side by side, blind to strides.
    return torch.empty_like(like, dtype=tensor.dtype, requires_grad=False).copy_(tensor)


def _counts_updates(step: Tensor) -> bool:
    """Whether a tensor is what torch's optimizers count updates with."""
    dtype = torch.float64 if torch.get_default_dtype() == torch.float64 else torch.float32
    return step.dtype == dtype and step.numel() == 1 and 0 <= float(step) < 1 << 53


def _facts(optimizer: Optimizer) -> dict[str, Any]:
    """What an optimizer is and how it is set; "groups" is what loading may change."""
    return {
        "optimizer": type(optimizer).__name__,
        "shapes": [list(parameter.shape) for parameter in _parameters(optimizer)],
        "sizes": [len(group["params"]) for group in optimizer.param_groups],
        "groups": [_group_facts(group) for group in optimizer.param_groups],
    }


def _group_facts(group: Mapping[str, Any]) -> dict[str, Any]:
    settings = {key: value for key, value in group.items() if key not in _MEANS}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()}


def _check_facts(ours: Mapping[str, Any], tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Refuse the facts of another kind of optimizer or of other parameters, and incomplete tensors."""
    _check_types(ours, facts)
    if facts["optimizer"] != ours["optimizer"]:
        raise DataError(
            f"The state is that of {facts['optimizer']}, the optimizer is {ours['optimizer']}. Make the same one."
        )
    _check_shapes(ours["shapes"], facts["shapes"])
    if list(facts["sizes"]) != ours["sizes"]:
        raise DataError(
            f"The state is for groups of {facts['sizes']} parameters, the optimizer has groups of {ours['sizes']}. "
            "Make both from the same module, or both from named parameters."
        )
    _check_groups(ours["groups"], facts["groups"])
    if wrong := sorted(set(facts["tensors"]) ^ tensors.keys()):
        problem = "is not named in its facts" if wrong[0] in tensors else "is missing"
        raise DataError(f"{wrong[0]!r} of the optimizer's state {problem}. Keep tensors and facts together.")


def _check_types(ours: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Refuse facts that are missing, or of the wrong type."""
    for key in (*ours, "tensors"):
        if key not in facts:
            raise DataError(f"{key!r} is missing from the optimizer's facts. Give what optimizer_tensors gave.")
    try:
        OptimizerFacts.model_validate(facts)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(
            f"{place!r} of the optimizer's facts is {first['input']!r:.40}. Give what optimizer_tensors gave."
        ) from error


def _check_groups(ours: list[dict[str, Any]], given: list[dict[str, Any]]) -> None:
    """Refuse settings of another type than the optimizer's own, and numbers that are not finite."""
    if [sorted(group) for group in given] != [sorted(group) for group in ours]:
        raise DataError(
            "'groups' of the facts have other settings than the optimizer. Give what optimizer_tensors gave."
        )
    for own, theirs in zip(ours, given, strict=True):
        for key, value in own.items():
            if not _is_alike(value, theirs[key]):
                raise DataError(
                    f"{key!r} of the optimizer's facts is {theirs[key]!r:.40}, where the optimizer has {value!r}. "
                    "Give what optimizer_tensors gave."
                )


def _is_alike(own: Any, given: Any) -> bool:
    if isinstance(own, list):
        return isinstance(given, list) and len(given) == len(own) and all(map(_is_alike, own, given))
    if not is_number(own):
        return type(given) is type(own)
    return is_number(given) and abs(given) < math.inf


def _check_shapes(ours: list[list[int]], given: list[list[int]]) -> None:
    if len(given) != len(ours):
        raise DataError(
            f"The state is for {len(given)} parameters where the optimizer has {len(ours)}. Load the state of an "
            "optimizer of the same model."
        )
    for index, (theirs, own) in enumerate(zip(given, ours, strict=True)):
        if list(theirs) != own:
            raise DataError(
                f"Parameter {index} is {tuple(own)} where the state is for {tuple(theirs)}. Load the state of an "
                "optimizer of a model of the same sizes."
            )


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
