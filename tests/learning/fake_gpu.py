"""A made-up GPU: tensors that claim to be on cuda:0, computed on the CPU, and refused where they meet CPU tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

GPU, CPU = torch.device("cuda:0"), torch.device("cpu")
#: Functions whose other tensors may be on the CPU: copies, and indices.
MIXING = (
    "copy_",
    "__getitem__",
    "__setitem__",
    "_foreach_copy_",
    "_has_compatible_shallow_copy_type",
    "_pack_padded_sequence",
)
#: Functions that need memory of the CPU.
READING = ("numpy", "__array__")


def is_on_gpu(tensor: Tensor) -> bool:
    """Whether a tensor is on the made-up GPU."""
    return bool(tensor.__dict__.get("on_gpu", False))


class FakeGPU(TorchFunctionMode):
    """Inside this context there is a GPU. What it computes is on it, as is what is moved there."""

    moved: int = 0  # tensors that came from the CPU

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function == Tensor.device.__get__:
            return GPU if is_on_gpu(args[0]) else CPU
        if function == Tensor.data.__set__:  # type: ignore[attr-defined]
            args[0].on_gpu = is_on_gpu(args[1])
            return function(*args, **kwargs)
        tensors = list(_tensors((args, kwargs)))
        here = any(map(is_on_gpu, tensors))
        target = _target(function, args, kwargs)
        if target is not None:
            self.moved += target == GPU and not here and bool(tensors)
            return _mark(_on_cpu(function, args, kwargs), target == GPU)
        if here:
            self._check(function, tensors)
        return _mark(function(*args, **kwargs), True) if here else function(*args, **kwargs)

    def _check(self, function: Any, tensors: list[Tensor]) -> None:
        name = getattr(function, "__name__", str(function))
        if name in READING:
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        strangers = [tensor for tensor in tensors if not is_on_gpu(tensor) and tensor.dim()]
        if strangers and name not in MIXING:
            raise RuntimeError(f"{name}: expected all tensors to be on the same device, but found cuda:0 and cpu")


def _tensors(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict):
        yield from _tensors(list(tree.values()))
    elif isinstance(tree, tuple | list):
        for part in tree:
            yield from _tensors(part)


def _target(function: Any, args: Any, kwargs: Any) -> torch.device | None:
    """The device that a call asks for, if it does."""
    if function is Tensor.cpu:
        return CPU
    asked = kwargs.get("device")
    if function is Tensor.to:
        for one in args[1:]:
            if isinstance(one, Tensor):
                return GPU if is_on_gpu(one) else CPU
            asked = one if isinstance(one, str | torch.device) else asked
    return None if asked is None else torch.device(asked)


def _on_cpu(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The call, with the CPU as its device; a tensor that moves is another one then."""
    kwargs = {name: CPU if name == "device" and value is not None else value for name, value in kwargs.items()}
    if function is Tensor.to:
        args = [CPU if isinstance(one, str | torch.device) else one for one in args]
    found = function(*args, **kwargs)
    return found.clone() if isinstance(found, Tensor) and args and found is args[0] else found


def _mark(found: Any, on_gpu: bool) -> Any:
    for tensor in _tensors(found):
        tensor.on_gpu = on_gpu  # type: ignore[attr-defined]
    return found
