"""What a search tries: the values of each setting, from its declaration, or as a user gives them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unspool.errors import ArgumentError

#: Settings that are searched by default. Every task has them.
USUAL = ("lr", "hidden", "dropout", "cell")
#: How large data is, in sequences per epoch: below the first, wide layers learn it by heart; above the second they pay.
SMALL, LARGE = 2_000, 50_000
#: Commas between settings, and not those in the brackets of a cell's options.
BETWEEN = re.compile(r",(?![^(]*\))")
FORMS = "Give names, such as 'lr,hidden', with values if needed: 'lr=1e-4..1e-2,cell=lstm|gru'"
#: A range whose ends differ by this factor is searched by its logarithm.
WIDE = 10


@dataclass(frozen=True)
class Span:
    """Numbers from `low` to `high`, both included.

    Attributes:
        log: Whether they are drawn by their logarithm.
        step: Of whole numbers, the distance between them; None for numbers with fractions.
    """

    low: float
    high: float
    log: bool = False
    step: int | None = None

    def holds(self, value: Any) -> bool:
        """Whether a value is in it."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        return self.step is None or (value - self.low) % self.step == 0

    def examples(self) -> tuple[Any, ...]:
        """Values that are valid only if all are."""
        return self.low, self.high

    def describe(self) -> str:
        """The values in words: 0.0004 to 0.016."""
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Choices:
    """Values of any kind; None stands for the default."""

    values: tuple[Any, ...]

    def holds(self, value: Any) -> bool:
        """Whether a value is one of them."""
        return value in self.values

    def examples(self) -> tuple[Any, ...]:
        """All of them."""
        return self.values

    def describe(self) -> str:
        """The values in words: lstm or gru."""
        return " or ".join("default" if one is None else str(one) for one in self.values)


@dataclass(frozen=True)
class Around:
    """Numbers around the one that a run would have without a search, so that they fit the task and its data.

    Attributes:
        down: The lowest, as a fraction of that number.
        up: The highest, as a multiple of it.
        whole: Whether they are whole numbers, whose highest also grows with the data.
    """

    down: float
    up: float
    whole: bool = False

    def span(self, base: float, sequences: int) -> Span:
        """The numbers around `base`, which is one of them, for data of so many sequences per epoch."""
        if not self.whole:
            return Span(base * self.down, base * self.up, log=True)
        up = self.up * (0.5 if sequences < SMALL else 2 if sequences > LARGE else 1)
        base, step = int(base), max(1, int(base) // 16)
        below = (base - max(1, round(base * self.down))) // step
        above = max(0, round(base * up) - base) // step
        return Span(base - step * below, base + step * above, step=step)


Space = Span | Choices
#: What a declaration says of a search.
Declared = Span | Choices | Around


def fit_space(name: str, declared: Declared | None, base: Any, sequences: int) -> Space:
    """The values of a setting that a search tries by default.

    Args:
        name: The setting.
        declared: What its declaration says.
        base: The value that a run would have without a search; it is among those that are tried.
        sequences: Sequences of training data per epoch.

    Raises:
        ArgumentError: The declaration has no values, or they do not go with `base`.
    """
    if isinstance(declared, Choices):
        return declared if base in declared.values else Choices((base, *declared.values))
    if isinstance(declared, Around | Span) and isinstance(base, int | float) and not isinstance(base, bool):
        found = declared.span(base, sequences) if isinstance(declared, Around) else declared
        return _stretch(found, base)
    problem = f"has no values to search where `{name}` is {base!r}"
    raise ArgumentError.of("search", name, problem, f"Give some, such as '{name}=1..4' or '{name}=A|B'")


def _stretch(span: Span, base: float) -> Span:
    """The span with `base` in it."""
    return Span(min(span.low, base), max(span.high, base), span.log, span.step)


def read_search(given: str | Iterable[str] | Mapping[str, Any] | None) -> dict[str, Space | None]:
    """What to search: names, each with its values, or None for those of its declaration.

    Args:
        given: `"lr,hidden=64..256,cell=lstm|gru"`, a list of such words, or a mapping from names to None, a pair
            `(low, high)` or a list of values.

    Example:
        >>> read_search("lr=0.001..0.1,cell=lstm|gru")["cell"]
        Choices(values=('lstm', 'gru'))
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {name: _read_values(name, values) for name, values in given.items()}
    words = BETWEEN.split(given) if isinstance(given, str) else [str(one) for one in given]
    found = dict(_read_word(word.strip()) for word in words)
    if len(found) < len(words) or "" in found:
        raise ArgumentError.of("search", given, "names nothing, or a setting twice", FORMS)
    return found


def _read_word(word: str) -> tuple[str, Space | None]:
    """A name, and the values after its =, if there are any."""
    name, equals, values = word.partition("=")
    if not equals:
        return name.strip(), None
    if ".." in values:
        return name.strip(), _read_values(name, tuple(read_value(end) for end in values.split("..")))
    return name.strip(), _read_values(name, [read_value(one) for one in values.split("|")])


def _read_values(name: str, values: Any) -> Space | None:
    if values is None:
        return None
    if isinstance(values, tuple):
        return _read_span(name, values)
    if isinstance(values, str) or not isinstance(values, Iterable) or not (several := tuple(values)):
        raise ArgumentError.of("search", f"{name}={values}", "is neither a range nor a list of values", FORMS)
    return Choices(tuple(dict.fromkeys(several)))


def _read_span(name: str, ends: tuple[Any, ...]) -> Span:
    numbers = [end for end in ends if isinstance(end, int | float) and not isinstance(end, bool)]
    if len(numbers) != 2 or len(ends) != 2 or not numbers[0] < numbers[1]:
        shown = f"{name}={'..'.join(map(str, ends))}"
        raise ArgumentError.of("search", shown, "is not a range from a number to a greater one", FORMS)
    low, high = numbers
    whole = isinstance(low, int) and isinstance(high, int)
    return Span(low, high, low > 0 and high >= WIDE * low, 1 if whole else None)


def read_value(word: str) -> Any:
    """A value as TOML has it; what TOML cannot read is a word."""
    try:
        return tomllib.loads(f"value = {word}")["value"]
    except ValueError:
        return word.strip()
