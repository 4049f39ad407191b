"""Leaves: the tensors inside nested tuples, lists and dicts, such as the state of a stack of layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

LEAVES = (Tensor, torch.Size)


def map_leaves(function: Callable[..., Any], *trees: Any) -> Any:
    """Apply a function to every leaf, and keep the nesting.

    Leaves are tensors and shapes (`torch.Size`). Anything else that is not a container, such as None, is left as it is.

    Args:
        function: takes one leaf of each tree, all from the same place.
        *trees: tuples (named ones too), lists and dicts, nested alike.

    Returns:
        The nesting of the first tree, with the function's results as leaves.

    Example:
        >>> map_leaves(torch.Tensor.detach, (h, [c, None]))
    """
    first = trees[0]
    if isinstance(first, LEAVES):
        return function(*trees)
    if isinstance(first, dict):
        return {key: map_leaves(function, *(tree[key] for tree in trees)) for key in first}
    if isinstance(first, tuple | list):
        return _rebuild(first, [map_leaves(function, *several) for several in zip(*trees, strict=True)])
    return first


def _rebuild(like: Any, parts: list[Any]) -> Any:
    """The parts in a tuple (a named one too) or list of the type of `like`."""
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


def leaves(tree: Any) -> list[Tensor]:
    """The tensors in nested tuples, lists and mappings, in order.

    Example:
        >>> leaves((h, {"c": c, "steps": 3}))
        [h, c]
    """
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, Mapping):
        tree = list(tree.values())
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, tuple | list) else []
