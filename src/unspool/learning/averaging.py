"""Averages of the parameters over training: mostly better than the last of them, and never worse by much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from unspool.errors import ArgumentError, DataError, UnknownNameError

KINDS = ("exponential", "tail")


class Average:
    """A running average of parameters, kept beside them.

    "exponential": a ← d·a + (1 − d)·p with d = min(`decay`, (1 + n)/(10 + n)) at the update after n others. The young
    average so leans on the newest parameters, and what it started from is soon forgotten.
    "tail": the plain mean of the parameters at every update since the average was made; `decay` is not read.
    Before the first update either is the parameters as they were when it was made.
    """

    def __init__(self, parameters: Iterable[Tensor], kind: str = "exponential", decay: float = 0.999) -> None:
        if kind not in KINDS:
            raise UnknownNameError.among("kind", kind, KINDS)
        if not 0 <= decay < 1:
            raise ArgumentError.of("decay", decay, "is not from 0 to below 1", "Give 0.99 to 0.9999")
        self.kind = kind
        self.decay = decay
        self._parameters = list(parameters)
        if not self._parameters:
            raise ArgumentError.of("parameters", self._parameters, "is empty", "Give module.parameters()")
        self._averages = [parameter.detach().clone() for parameter in self._parameters]
        self._count = 0
        self._applied = False

    @property
    def count(self) -> int:
        """How many updates there were."""
        return self._count

    @torch.no_grad()
    def update(self) -> None:
        """Takes in the parameters as they are now."""
        if self._applied:
            raise ArgumentError("update() inside applied() would average the average. Leave the `with` block first.")
        torch._foreach_lerp_(self._averages, self._parameters, self._weight_of_the_next())
        self._count += 1

    def _weight_of_the_next(self) -> float:
        n = self._count
        if self.kind == "tail":
            return 1 / (n + 1)
        return 1 - min(self.decay, (1 + n) / (10 + n))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The parameters hold the average inside the `with` block, and afterwards, bit for bit, what they held."""
        if self._applied:
            raise ArgumentError("applied() inside applied(): the average is in the parameters already. Use one.")
        originals = [parameter.detach().clone() for parameter in self._parameters]
        self._applied = True
        try:
            _copy(self._parameters, self._averages)
            yield
        finally:
            _copy(self._parameters, originals)
            self._applied = False

    def settle(self) -> None:
        """The parameters hold the average from now on; what they held is forgotten."""
        if self._applied:
            raise ArgumentError("settle() inside applied() would be undone at its end. Leave the `with` block first.")
        _copy(self._parameters, self._averages)

    def tensors(self) -> dict[str, Tensor]:
        """Its whole state, in copies: the averages by the parameters' order, and the count."""
        return {name: tensor.clone() for name, tensor in self._state().items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up a state that `tensors` gave, of the same kind and for the same parameters."""
        expected = self._state()
        for name in sorted(expected.keys() ^ tensors.keys()):
            problem = "is missing from" if name in expected else "is too much in"
            raise DataError(
                f"{name!r} {problem} what is loaded into an average of kind {self.kind!r} of {len(self._averages)} "
                "parameters. Load the state of one of the same kind and model."
            )
        for name, like in expected.items():
            given = tensors[name]
            if given.shape != like.shape or given.dtype != like.dtype:
                raise DataError(
                    f"{name!r} is {tuple(given.shape)} {given.dtype} where the average has {tuple(like.shape)} "
                    f"{like.dtype}. Load the state of a model of the same sizes."
                )
        _copy(self._averages, [tensors[f"{self.kind}.{index}"] for index in range(len(self._averages))])
        self._count = int(tensors[f"{self.kind}.count"])

    def _state(self) -> dict[str, Tensor]:
        state = {f"{self.kind}.{index}": average for index, average in enumerate(self._averages)}
        return state | {f"{self.kind}.count": torch.tensor(self._count)}


@torch.no_grad()
def _copy(into: list[Tensor], values: list[Tensor]) -> None:
    torch._foreach_copy_(into, values)
