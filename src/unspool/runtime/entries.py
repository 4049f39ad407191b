"""Entry: a place in a JSON document of unknown origin, which says its path in every error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

from unspool.cells.numbers import is_number, is_whole
from unspool.errors import DataError

Part = TypeVar("Part")

#: What to do about a document that is wrong.
REMEDY = "Restore network.json, or write it again by resuming the run with `resume=True`"
#: How much of a wrong value stands in a message.
LONGEST_SHOWN = 60


class Entry:
    """A value of a document, and where it stands.

    Example:
        >>> Entry({"layers": 3}, "stack").open("layers")["layers"].whole()
        3
    """

    def __init__(self, value: Any, path: str = "") -> None:
        self.value, self.path = value, path

    def refuse(self, problem: str) -> NoReturn:
        """Raise a DataError that names this place."""
        raise DataError(f"the network's document is wrong: {self.path or 'it'} {problem}. {REMEDY}.")

    def open(self, *names: str) -> dict[str, Entry]:
        """The entries of an object, which has exactly these names."""
        if not isinstance(self.value, dict):
            self.refuse(f"is {shown(self.value)}, not an object")
        if missing := [name for name in names if name not in self.value]:
            self.refuse(f"has no entry {missing[0]!r}")
        if unknown := [name for name in self.value if name not in names]:
            self.refuse(f"has an entry {shown(unknown[0])}, which means nothing there")
        return {name: Entry(self.value[name], f"{self.path}.{name}".lstrip(".")) for name in names}

    def items(self) -> Iterator[tuple[str, Entry]]:
        """The entries of an object by whatever names it has."""
        if not isinstance(self.value, dict):
            self.refuse(f"is {shown(self.value)}, not an object")
        for name, value in self.value.items():
            yield str(name), Entry(value, f"{self.path}.{shown(name)[1:-1]}")

    def each(self, least: int, most: int) -> list[Entry]:
        """The entries of a list of `least` to `most`."""
        if not isinstance(self.value, list):
            self.refuse(f"is {shown(self.value)}, not a list")
        if not least <= len(self.value) <= most:
            self.refuse(f"has {len(self.value)} entries, not {least} to {most}")
        return [Entry(value, f"{self.path}[{place}]") for place, value in enumerate(self.value)]

    def optional(self, read: Callable[[Entry], Part]) -> Part | None:
        """What `read` makes of this; None where the document says null."""
        return None if self.value is None else read(self)

    def whole(self, least: int = 1, most: int = 2**31 - 1) -> int:
        """An integer from `least` to `most`."""
        if not is_whole(self.value) or not least <= self.value <= most:
            self.refuse(f"is {shown(self.value)}, not an integer from {least} to {most}")
        return int(self.value)

    def number(self, least: float, most: float) -> float:
        """A number from `least` to `most`; NaN is none."""
        if not is_number(self.value) or not least <= self.value <= most:
            self.refuse(f"is {shown(self.value)}, not a number from {least:g} to {most:g}")
        return float(self.value)

    def flag(self) -> bool:
        """True or False."""
        if not isinstance(self.value, bool):
            self.refuse(f"is {shown(self.value)}, neither true nor false")
        return bool(self.value)

    def text(self, among: Sequence[str] = ()) -> str:
        """A text, of these if there are any."""
        if not isinstance(self.value, str):
            self.refuse(f"is {shown(self.value)}, not a text")
        if among and self.value not in among:
            self.refuse(f"is {shown(self.value)}, not one of {', '.join(among)}")
        return str(self.value)


def shown(value: object) -> str:
    """A value for a message: its repr, or the beginning of it; of containers only what they are."""
    if isinstance(value, dict | list):
        return f"a {'list' if isinstance(value, list) else 'object'} of {len(value)}"
    try:
        text = repr(value)
    except ValueError:  # Python prints no whole number of more than 4300 digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"
