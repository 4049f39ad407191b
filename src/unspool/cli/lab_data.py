"""unspool lab data: generated data, written to a file."""

from __future__ import annotations

import csv
import inspect
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unspool.cli.terminal import console
from unspool.errors import ArgumentError, UnknownNameError, UnspoolError
from unspool.lab import data
from unspool.storage.files import write_file

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
    check_target(target, holds_arrays(made))
    write_file(target, encoded(made, target.suffix.lower()))
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
        found[name] = number(name, value) if takes_number(known[name]) else value
    return found


def takes_number(parameter: inspect.Parameter) -> bool:
    """Whether an argument is a number, and not a path or a word."""
    return parameter.default is parameter.empty or isinstance(parameter.default, int | float)


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


def check_target(target: Path, arrays: bool) -> None:
    """Refuse what is not a file, and an ending that says another format than the one that is written."""
    known = (".npz",) if arrays else (".tsv", ".csv", ".txt")
    if target.is_dir():
        raise ArgumentError.of("out", str(target), "is a folder", f"Give a file such as data{known[0]}")
    if not target.absolute().parent.is_dir():
        raise ArgumentError.of("out", str(target), "is in a folder that does not exist", "Make the folder first")
    if target.suffix.lower() not in known:
        raise ArgumentError.of("out", str(target), "does not say the format", f"Give a name in {' or '.join(known)}")


def holds_arrays(made: Any) -> bool:
    """Whether the data is numbers."""
    return isinstance(made, np.ndarray) or (isinstance(made, tuple) and isinstance(made[0], np.ndarray))


def examples(made: Any) -> list[Any]:
    """Texts with what belongs to each: lists side by side become a list of rows."""
    return list(zip(*made, strict=True)) if isinstance(made, tuple) else list(made)


def encoded(made: Any, suffix: str) -> bytes:
    """Arrays as `.npz`, texts as rows of CSV or with tabs between the parts of an example."""
    if holds_arrays(made):
        archive = io.BytesIO()
        np.savez_compressed(archive, **named(made))
        return archive.getvalue()
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter="," if suffix == ".csv" else "\t", lineterminator="\n")
    writer.writerows(_parts(one) for one in examples(made))
    return text.getvalue().encode("utf-8")


def named(made: Any) -> dict[str, Any]:
    """Arrays by name: those of a named tuple, else x, y, z."""
    if isinstance(made, np.ndarray):
        return {"x": made}
    return dict(zip(getattr(made, "_fields", "xyz"), made, strict=False))


def _parts(example: Any) -> list[str]:
    parts = (example,) if isinstance(example, str) else example
    return [" ".join(map(str, part)) if isinstance(part, list) else str(part) for part in parts]


def describe(made: Any) -> str:
    """Shapes of arrays, or the number of examples."""
    if not holds_arrays(made):
        return f"{len(examples(made)):,} examples"
    return ", ".join(f"{name} {array.shape}" for name, array in named(made).items())
