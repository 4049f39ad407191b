"""unspool lab data: generated data, written to a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unspool.cli.terminal import console
from unspool.errors import ArgumentError, UnknownNameError
from unspool.lab import data
from unspool.learning.files import storing

#: What a generator that asks for it gets, if the command does not say.
USUAL = {"T": 100, "count": 1000, "steps": 1000}


def write_data(words: Sequence[str], out: Path | None, seed: int) -> None:
    """Write what a generator makes.

    Args:
        words: its name, then arguments such as `T=200`; no name lists the generators.
        out: the file: `.npz` for arrays, any other name for texts.
        seed: of the random numbers.
    """
    generators = {name: value for name, value in vars(data).items() if inspect.isfunction(value)}
    if not words:
        for name, generator in sorted(generators.items()):
            console().print(f"{name:<18} {(inspect.getdoc(generator) or '').splitlines()[0]}")
        return
    name = words[0].replace("-", "_")
    if name not in generators:
        raise UnknownNameError.among("name", words[0], generators)
    made = generators[name](**arguments(generators[name], words[1:], seed))
    target = out or Path(f"{name}.npz" if holds_arrays(made) else f"{name}.tsv")
    with storing(target):
        save(made, target)
    console().print(f"{target}: {describe(made)}")


def arguments(generator: Callable[..., Any], words: Sequence[str], seed: int) -> dict[str, Any]:
    """The generator's arguments: those given as `name=value`, the seed, and usual sizes for the rest."""
    known = inspect.signature(generator).parameters
    found: dict[str, Any] = {
        name: USUAL[name] for name, one in known.items() if name in USUAL and one.default is one.empty
    }
    if "seed" in known:
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


def holds_arrays(made: Any) -> bool:
    """Whether the data is numbers."""
    return isinstance(made, np.ndarray) or (isinstance(made, tuple) and isinstance(made[0], np.ndarray))


def save(made: Any, target: Path) -> None:
    """Write arrays as `.npz`, texts as lines with tabs between the parts of an example."""
    if holds_arrays(made):
        arrays = made if isinstance(made, tuple) else (made,)
        names = ("x", "y", *(f"z{place}" for place in range(len(arrays))))
        with open(target, "wb") as stream:  # a name of any ending stays as it is
            np.savez_compressed(stream, **dict(zip(names, arrays, strict=False)))
        return
    lines = (" ".join(map(str, one)) if isinstance(one, list) else one for one in made)
    text = "".join(f"{one if isinstance(one, str) else chr(9).join(map(str, one))}\n" for one in lines)
    target.write_text(text, encoding="utf-8")


def describe(made: Any) -> str:
    """Shapes of arrays, or the number of examples."""
    if not holds_arrays(made):
        return f"{len(made):,} examples"
    arrays = made if isinstance(made, tuple) else (made,)
    shapes: Mapping[str, Any] = dict(zip("xyz", (array.shape for array in arrays), strict=False))
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items())
