"""Sequences whose items are made when they are asked for: none is kept."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar, overload

Item = TypeVar("Item")


class OnDemand(Sequence[Item]):
    """A sequence that makes an item each time it is asked for. A subclass says how many there are, and makes one."""

    @abstractmethod
    def make(self, number: int) -> Item:
        """The item of a number from 0 on, which is below the length."""

    @overload
    def __getitem__(self, place: int) -> Item: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Item]: ...

    def __getitem__(self, place: int | slice) -> Item | Sequence[Item]:
        numbers = range(len(self))[place]  # refuses what is beyond the end, as `for` needs
        return self.make(numbers) if isinstance(numbers, int) else [self.make(number) for number in numbers]
