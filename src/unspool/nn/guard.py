"""Guard: what torch's own passes do not look after: the memory of the weights, and how often they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import torch
from torch import nn

from unspool.nn.checks import check_memory
from unspool.nn.layout import Tensors
from unspool.nn.leaves import leaves
from unspool.nn.recording import is_traced

Results = TypeVar("Results")


def guard_backward(results: Results, names: Sequence[str], weights: Tensors) -> Results:
    """Let a backward pass through results of torch's operations begin with a check of the weights' memory.

    A weight may be freed between the passes, as by offloading. All paths into the operations lead through the results,
    so each of them asks. A second differentiation has paths of its own, and asks no more.

    Args:
        results: what the operations gave, nested in any way.
        names: of the weights, for a message.
        weights: what the operations were given.

    Returns:
        The results.
    """
    if torch.compiler.is_compiling() or is_traced() or torch._C._functorch.maybe_current_level() is not None:
        return results
    check = partial(_check, tuple(names), tuple(weights))
    for node in {result.grad_fn for result in leaves(results)} - {None}:
        node.register_prehook(check)  # type: ignore[union-attr]
    return results


def _check(names: Sequence[str], weights: Tensors, _gradients: object) -> None:
    for name, weight in zip(names, weights, strict=True):
        check_memory(name, weight)


#: The attribute of a layer whose weights were read for the call that goes on.
READ = "_has_read_weights"


@contextmanager
def weights_were_read(layer: nn.Module) -> Iterator[None]:
    """A context in which `must_not_read` is true: read again, a parametrized weight such as a spectral norm changes."""
    if torch.compiler.is_compiling():
        yield
        return
    layer.__dict__[READ] = True
    try:
        yield
    finally:
        layer.__dict__.pop(READ, None)


def must_not_read(layer: nn.Module) -> bool:
    """Whether a layer's weights were read for the call that goes on."""
    return READ in layer.__dict__
