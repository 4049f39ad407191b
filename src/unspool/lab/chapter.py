"""A chapter: one claim put to the test. It measures, judges the numbers, and shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from unspool.lab.verdict import Number, Verdict

#: What a chapter measured: numbers, texts, lists and objects, as JSON has them.
Found = Mapping[str, Any]
Value = TypeVar("Value")
Numbers = Sequence[Number]


@dataclass(frozen=True)
class Study:
    """How thoroughly to measure.

    Args:
        quick: minutes for all chapters together, in place of hours.
        count: seeds for what varies between seeds; by default 3 if quick, else 5.
        first: the first seed.
        progress: is told the fraction that is done.

    Example:
        >>> study = Study(quick=True)
        >>> list(study.seeds()), study.choose(quick=100, full=1000)
        ([0, 1, 2], 100)
    """

    quick: bool = False
    count: int | None = None
    first: int = 0
    progress: Callable[[float], None] | None = None

    def choose(self, quick: Value, full: Value) -> Value:
        """One of two values: a cheap one for a quick study, or the full one."""
        return quick if self.quick else full

    def tell(self, fraction: float) -> None:
        """Say which fraction is done."""
        if self.progress is not None:
            self.progress(fraction)

    @property
    def number(self) -> int:
        """How many seeds there are."""
        return self.count or self.choose(3, 5)

    def seeds(self) -> Iterator[int]:
        """The seeds, with progress told after each."""
        for place in range(self.number):
            yield self.first + place
            self.tell((place + 1) / self.number)


@dataclass(frozen=True)
class Table:
    """Rows below a heading; numbers are written with four significant digits."""

    heading: tuple[str, ...]
    rows: Sequence[Sequence[Number | str]]


class Series(NamedTuple):
    """A curve or a group of bars: values at places, with the ends of an interval if they have one."""

    name: str
    x: Sequence[Any]
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None


class Mark(NamedTuple):
    """A straight reference line through the whole figure: at a value of y, or of x."""

    name: str
    value: float
    vertical: bool = False


@dataclass(frozen=True)
class Lines:
    """Curves over a common axis; `points` draws markers without lines."""

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    points: bool = False
    marks: Sequence[Mark] = ()


@dataclass(frozen=True)
class Bars:
    """Groups of bars, one bar per series in each group; a series has the groups' names as x."""

    title: str
    y: str
    series: Sequence[Series]
    log_y: bool = False
    marks: Sequence[Mark] = ()


@dataclass(frozen=True)
class HeatMap:
    """Values as colors; rows from top to bottom."""

    title: str
    x: str
    y: str
    columns: Sequence[Any]
    rows: Sequence[Any]
    values: Sequence[Numbers]
    color: str


@dataclass(frozen=True)
class Shown:
    """What a reader sees of the numbers."""

    tables: tuple[Table, ...] = ()
    figures: tuple[Lines | Bars | HeatMap, ...] = ()
    remarks: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Chapter:
    """One claim and its test.

    Attributes:
        claim: the id of the claim in `unspool.lab.claims`.
        equation: what the claim is about, such as `h_t = a h_{t−1} + x_t`; lines are separate equations.
        method: what is done to test it, and when it holds.
        measure: makes the numbers, in JSON's types.
        judge: the verdict that follows from the numbers alone.
        show: tables and figures of the numbers.
    """

    claim: str
    equation: str
    method: str
    measure: Callable[[Study], Found]
    judge: Callable[[Found], Verdict]
    show: Callable[[Found], Shown]
