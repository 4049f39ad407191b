"""Averaged weights: mostly better than the last ones, and never worse by much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from unspool.errors import ArgumentError, DataError, UnknownNameError

KINDS = ("ema", "swa")


class Average:
    """A running average of parameters, kept beside them.

    - "ema", the exponential moving average: a ← d·a + (1 − d)·p with d = min(`decay`, (1 + n)/(10 + n)) at the update
      after n others. Early on it follows the newest parameters, and soon forgets what it started from.
    - "swa", stochastic weight averaging: the plain mean of the parameters at every update since it was made.

    Before the first update, either equals the parameters as they were when it was made.

    Args:
        parameters: What to average, such as `model.parameters()`.
        kind: "ema" or "swa".
        decay: Of "ema", from 0 to below 1; "swa" ignores it.

    Example:
        average = Average(model.parameters(), "ema", decay=0.999)
        for batch in batches:
            loss(model, batch).backward()
            optimizer.step()
            average.update()
        with average.applied():
            evaluate(model)
    """

    def __init__(self, parameters: Iterable[Tensor], kind: str = "ema", decay: float = 0.999) -> None:
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
        """The number of updates so far."""
        return self._count

    @torch.no_grad()
    def update(self) -> None:
        """Take the parameters as they are now into the average."""
        if self._applied:
            raise ArgumentError("update() inside applied() would average the average. Leave the `with` block first.")
        torch._foreach_lerp_(self._averages, self._parameters, self._next_weight())
        self._count += 1

    def _next_weight(self) -> float:
        n = self._count
        if self.kind == "swa":
            return 1 / (n + 1)
        return 1 - min(self.decay, (1 + n) / (10 + n))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """A context in which the parameters hold the average; afterwards they are, bit for bit, what they were."""
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
        """Copy the average into the parameters for good."""
        if self._applied:
            raise ArgumentError("settle() inside applied() would be undone at its end. Leave the `with` block first.")
        _copy(self._parameters, self._averages)

    def tensors(self) -> dict[str, Tensor]:
        """A copy of its whole state: the averages in the order of the parameters, and the count."""
        return {name: tensor.clone() for name, tensor in self._state().items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore a state that `tensors` gave, of the same kind and for the same parameters.

        Raises:
            DataError: The state is that of another kind or of other parameters.
        """
        expected = self._state()
        self._check_fit(expected, tensors)
        count = int(tensors[f"{self.kind}.count"])
        if count < 0:
            raise DataError(f"'{self.kind}.count' is {count}, not a number of updates. Load the state of an average.")
        _copy(self._averages, [tensors[f"{self.kind}.{index}"] for index in range(len(self._averages))])
        self._count = count

    def _check_fit(self, expected: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
        for name in sorted(expected.keys() ^ tensors.keys()):
            problem = "is missing from" if name in expected else "is unexpected in"
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

    def _state(self) -> dict[str, Tensor]:
        state = {f"{self.kind}.{index}": average for index, average in enumerate(self._averages)}
        return state | {f"{self.kind}.count": torch.tensor(self._count)}


@torch.no_grad()
def _copy(into: list[Tensor], values: list[Tensor]) -> None:
    torch._foreach_copy_(into, values)
