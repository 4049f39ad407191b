"""The single numbers of a report: found in what was measured, put in order and named for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from unspool.cells.numbers import is_number
from unspool.insight.labels import read_label
from unspool.insight.report.plain import to_plain
from unspool.language import Message, words

#: Between the parts of a number's name: measure, field, layer.
BETWEEN = " · "
#: Ranks below this are key numbers: a comparison shows them even if only one of two runs has them.
KEY = 10
#: Longest list beside `labels` that gives one number for each label.
MOST = 16


@dataclass(frozen=True)
class Scalar:
    """A single number that people look for.

    Attributes:
        name: the field that holds it, such as `horizon`; within a report after its measure, `flow · horizon`.
        words: its name for people; None for an input of the measure, which says nothing about a network: not shown.
        rank: its place among all, the most wanted first; those below 10 are key numbers.
        bound: the field that says whether the number is only a lower bound; None if there is none.

    Example:
        >>> Scalar("horizon", "gradient horizon (steps)", rank=0).words
        'gradient horizon (steps)'
    """

    name: str
    words: str | None
    rank: int = 100
    bound: str | None = None


class Glossary:
    """The words and the order for the single numbers of one report or several."""

    def __init__(self, scalars: Iterable[Scalar]) -> None:
        self._known = sorted({scalar.name: scalar for scalar in scalars}.values(), key=lambda scalar: scalar.rank)

    def find(self, numbers: Mapping[str, Any]) -> dict[str, float]:
        """Single numbers by name, such as `flow · rate · layer 1`: those with words first, then as they stand.

        A list of up to 16 numbers beside `labels` of the same length gives one number for each label.
        """
        found = {name: float(value) for name, value in _leaves(to_plain(numbers), ()) if _is_single(value)}
        return {name: found[name] for name in self.sort(found) if not self._is_input(name)}

    def find_bounds(self, numbers: Mapping[str, Any]) -> set[str]:
        """The names of those single numbers that are only lower bounds."""
        flags = {name for name, value in _leaves(to_plain(numbers), ()) if value is True}
        return {
            f"{scalar.name}{name.removeprefix(flag)}"
            for scalar in self._known
            if scalar.bound is not None
            for flag in [BETWEEN.join([*scalar.name.split(BETWEEN)[:-1], scalar.bound])]
            for name in flags
            if name == flag or name.startswith(f"{flag}{BETWEEN}")
        }

    def sort(self, names: Iterable[str]) -> list[str]:
        """Names in the order in which people look for them; those without words last, as they stand."""
        return sorted(names, key=self._place)

    def is_key(self, name: str) -> bool:
        """Whether a comparison shows the number even if only one of two runs has it."""
        known = self._scalar(name)
        return known is not None and known.rank < KEY

    def words(self, name: str) -> str:
        """A number's name in words, such as `gradient kept per step, layer 1`."""
        found, label = self.parts(name)
        return Message("{words}, {label}", words=found, label=label) if label else found

    def parts(self, name: str) -> tuple[str, str]:
        """A number's name in words, and the layer or other part that it belongs to; empty if it has none."""
        known = self._scalar(name)
        if known is None or known.words is None:
            return name, ""
        label = name.removeprefix(known.name).removeprefix(BETWEEN)
        return words(known.words), read_label(label)

    def _place(self, name: str) -> int:
        known = self._scalar(name)
        return len(self._known) if known is None else self._known.index(known)

    def _is_input(self, name: str) -> bool:
        known = self._scalar(name)
        return known is not None and known.words is None

    def _scalar(self, name: str) -> Scalar | None:
        return next(
            (known for known in self._known if name == known.name or name.startswith(f"{known.name}{BETWEEN}")), None
        )


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Whatever is no dict, by its name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            for label, item in _items(inner, value.get("labels")):
                yield from _leaves(item, (*path, str(key), *label))
    else:
        yield BETWEEN.join(part.replace("_", " ") for part in path), value


def _is_single(value: Any) -> bool:
    return value in ("inf", "-inf") or is_number(value)


def _items(value: Any, labels: Any) -> list[tuple[tuple[str, ...], Any]]:
    """The items of a list with their labels, if it has one for each; else the value without a label."""
    if isinstance(value, list) and isinstance(labels, list) and len(value) == len(labels) <= MOST:
        return [((str(label),), item) for label, item in zip(labels, value, strict=True)]
    return [((), value)]
