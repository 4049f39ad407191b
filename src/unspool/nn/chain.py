"""Chain: layers of which each reads the output of the one below, as one small call in C++."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from unspool.nn.entry import Call
from unspool.nn.layout import Tensors
from unspool.nn.quick_call import find_number
from unspool.nn.route import DTYPES
from unspool.nn.runner import Runner


class Chain:
    """What the calls of such layers have in common. Each runs from the first step to the last.

    Args:
        runners: of each layer, from the lowest up.
        stacked: whether the final states of all layers lie together, as torch.nn gives them; else each for itself.
    """

    def __init__(self, runners: Sequence[Runner], stacked: bool) -> None:
        self._runners, self._stacked = tuple(runners), stacked
        #: By which numbers the entry knows the chain.
        self.numbers: dict[torch.dtype, int] = {}

    def enter(self, call: Call, tensors: tuple[Tensor, ...], at_once: bool) -> tuple[Tensor, ...]:
        """Output and final states by the entry in C++.

        Args:
            call: the entry.
            tensors: x, then the initial states (or none) and the parameters of each layer.
            at_once: whether layers may run at once, each in a thread.

        Returns:
            Nothing if the call is not small, or has to be looked at.
        """
        dtype = tensors[0].dtype
        number = self.numbers.get(dtype)
        if number is None and (number := self._find_number(dtype)) is None:
            return ()
        return call(number, tensors, at_once)

    def _find_number(self, dtype: torch.dtype) -> int | None:
        """The chain's number in the entry; None if there are no kernels yet."""
        if dtype not in DTYPES or not all(runner.kernel.has(dtype.itemsize) for runner in self._runners):
            return None
        calls = [runner.quick_call(reverse=False, stacked=self._stacked) for runner in self._runners]
        self.numbers[dtype] = find_number(calls, dtype.itemsize)
        return self.numbers[dtype]


@lru_cache
def find_chain(runners: tuple[Runner, ...], stacked: bool) -> Chain:
    """The chain of these layers, made once."""
    return Chain(runners, stacked)


def join(x: Tensor, starts: Sequence[Tensors | None], parameters: Sequence[Tensors]) -> Iterator[Tensor]:
    """The tensors of a call: x, then the initial states (or none) and the parameters of each layer."""
    yield x
    for start, own in zip(starts, parameters, strict=True):
        yield from start or ()
        yield from own
