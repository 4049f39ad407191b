"""unspool lab data: generated data, written to a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unspool.cli.terminal import console
from unspool.errors import ArgumentError, UnknownNameError, UnspoolError
from unspool.lab import data
from unspool.learning.files import storing

#: What a generator that asks for it gets, if the command does not say.
USUAL = {"T": 100, "count": 1000, "steps": 1000, "sentences": 100}
Generator = Callable[..., Any]


def write_data(words: Sequence[str], out: Path | None, seed: int) -> None:
    """Write what a generator makes.

    Args:
        words: its name, then arguments such as `T=200`; no name lists the generators.
        out: the file: `.npz` for arrays, any other name for texts.
        seed: of the random numbers.
    """
    generators = find_generators()
    if not words:
        for name, generator in sorted(generators.items()):
            console().print(f"{name:<18} {(inspect.getdoc(generator) or '').splitlines()[0]}")
        return
    name = words[0].replace("-", "_")
    if name not in generators:
        raise UnknownNameError.among("name", words[0], generators)
    made = generate(generators[name], arguments(generators[name], words[1:], seed))
    target = out or Path(f"{name}.npz" if holds_arrays(made) else f"{name}.tsv")
    with storing(target):
        save(made, target)
    console().print(f"{target}: {describe(made)}")


def find_generators() -> dict[str, Generator]:
    """The functions of `unspool.lab.data` that draw by a seed and need nothing but sizes."""
    functions = {name: value for name, value in vars(data).items() if inspect.isfunction(value)}
    return {name: value for name, value in functions.items() if _needs_sizes_only(value)}


def _needs_sizes_only(function: Generator) -> bool:
    known = inspect.signature(function).parameters
    needed = {name for name, one in known.items() if one.default is one.empty}
    return "seed" in known and needed <= USUAL.keys()


def arguments(generator: Generator, words: Sequence[str], seed: int) -> dict[str, Any]:
    """The generator's arguments: those given as `name=value`, the seed, and usual sizes for the rest."""
    known = inspect.signature(generator).parameters
    found: dict[str, Any] = {name: USUAL[name] for name, one in known.items() if one.default is one.empty}
    found["seed"] = seed
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or name not in known:
            raise ArgumentError.of("argument", word, "is not known", f"Give name=value of {', '.join(known)}")
        found[name] = number(name, value)
    return found


def number(name: str, value: str) -> int | float | bool:
    """A number, or true or false."""
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        return float(value) if set(value) & set(".eE") else int(value)
    except ValueError:
        raise ArgumentError.of(name, value, "is not a number", f"Give such as {name}=100") from None


def generate(generator: Generator, given: Mapping[str, Any]) -> Any:
    """What the generator makes; numbers that it cannot use are refused."""
    try:
        return generator(**given)
    except UnspoolError:
        raise
    except (ValueError, TypeError, IndexError, MemoryError, OverflowError) as error:
        remedy = "Give positive sizes that fit into memory"
        raise ArgumentError.of("arguments", dict(given), f"cannot be used ({error})", remedy) from error


def holds_arrays(made: Any) -> bool:
    """Whether the data is numbers."""
    return isinstance(made, np.ndarray) or (isinstance(made, tuple) and isinstance(made[0], np.ndarray))


def examples(made: Any) -> list[Any]:
    """Texts with what belongs to each: lists side by side become a list of rows."""
    return list(zip(*made, strict=True)) if isinstance(made, tuple) else list(made)


def save(made: Any, target: Path) -> None:
    """Write arrays as `.npz`, texts as lines with tabs between the parts of an example."""
    if not holds_arrays(made):
        target.write_text("".join(f"{_line(one)}\n" for one in examples(made)), encoding="utf-8")
        return
    with open(target, "wb") as stream:  # a name of any ending stays as it is
        np.savez_compressed(stream, **named(made))


def named(made: Any) -> dict[str, Any]:
    """Arrays by name: those of a named tuple, else x, y, z."""
    if isinstance(made, np.ndarray):
        return {"x": made}
    return dict(zip(getattr(made, "_fields", "xyz"), made, strict=False))


def _line(example: Any) -> str:
    parts = (example,) if isinstance(example, str) else example
    return "\t".join(" ".join(map(str, part)) if isinstance(part, list) else str(part) for part in parts)


def describe(made: Any) -> str:
    """Shapes of arrays, or the number of examples."""
    if not holds_arrays(made):
        return f"{len(examples(made)):,} examples"
    return ", ".join(f"{name} {array.shape}" for name, array in named(made).items())
