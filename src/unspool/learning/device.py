"""Devices: which one a name means, nested arrays and tensors moved there, and the state of their random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unspool.errors import ArgumentError
from unspool.nn.leaves import map_leaves


def available_devices() -> list[str]:
    """The names of all devices that torch can compute on here, the fastest kind first.

    Example:
        >>> available_devices()
        ['cuda:0', 'cuda:1', 'cpu']
    """
    found = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    return [*found, "cpu"]


def choose_device(name: str) -> torch.device:
    """The device that a name means.

    Args:
        name: "cpu", "cuda" (the first GPU), "cuda:1", "mps", or "auto" for the fastest kind there is: CUDA, then MPS,
            then the CPU.

    Returns:
        The device, with its number if it has one.

    Raises:
        ArgumentError: There is no such device here.

    Example:
        >>> choose_device("auto")
        device(type='cpu')
    """
    found = available_devices()
    if name == "auto":
        return torch.device(found[0])
    full = "cuda:0" if name == "cuda" else name
    if full not in found:
        known = ", ".join(f"`device={one!r}`" for one in found)
        raise ArgumentError.of("device", name, "is not available", f"Available: {known}")
    return torch.device(full)


def to_device(tree: Any, device: torch.device) -> Any:
    """Move every array and tensor in nested tuples (named ones too), lists and dicts to a device, as a tensor.

    Args:
        tree: A batch, a state, or anything else; what is neither an array nor a tensor stays as it is.
        device: Where to.

    Returns:
        The same nesting. A tensor that is there is returned as it is; that of an array on the CPU shares its memory.

    Example:
        batch = to_device(batches[0], choose_device("auto"))
    """
    return map_leaves(lambda leaf: _move(leaf, device), tree, kinds=(Tensor, np.ndarray))


def _move(leaf: Any, device: torch.device) -> Tensor:
    tensor: Tensor = torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf
    return tensor.to(device)


def to_device_of(module: nn.Module, tree: Any) -> Any:
    """Move nested arrays and tensors to where the parameters of a module are; without any, to the CPU.

    Example:
        scores = learner.score(to_device_of(learner, batch))
    """
    parameter = next(module.parameters(), None)
    return to_device(tree, torch.device("cpu") if parameter is None else parameter.device)


def random_state(device: torch.device) -> Tensor:
    """The state of torch's random numbers: of the CPU, and after it that of the device, if that is another one."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    if device.type == "mps":
        states.append(torch.mps.get_rng_state())
    return torch.cat(states) if len(states) > 1 else states[0]


def set_random_state(state: Tensor, device: torch.device) -> None:
    """Restore what `random_state` gave; where it was that of another kind of device, the part of the CPU alone."""
    size = len(torch.get_rng_state())
    torch.set_rng_state(state[:size])
    rest = state[size:]
    if device.type == "cuda" and len(rest) == len(torch.cuda.get_rng_state(device)):
        torch.cuda.set_rng_state(rest, device)
    if device.type == "mps" and len(rest) == len(torch.mps.get_rng_state()):
        torch.mps.set_rng_state(rest)


def where_float64(tensor: Tensor) -> Tensor:
    """The tensor on a device that computes in float64, which MPS does not: there, a copy on the CPU."""
    return tensor.cpu() if tensor.device.type == "mps" else tensor
