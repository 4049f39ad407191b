"""Labelled sequences of numbers from .ts files (aeon, sktime) and from .npz files (NumPy)."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspool.data.names import PARTS
from unspool.data.problems import Problems
from unspool.data.text import read_lines
from unspool.errors import DataError

Floats = NDArray[np.float64]
#: Names of the arrays of sequences and of targets, in lower case, in the order in which they are looked for.
NAMES = (("x", "y"), ("data", "labels"), ("data", "label"), ("data", "target"))
#: Split → the ends of its arrays' names.
SPLITS = {names[0]: tuple(f"_{name}" for name in names) for names in PARTS.values()}
#: A value with its time, in .ts files with timestamps.
STAMPED = re.compile(r"\(([^,()]*),([^()]*)\)")


class Arrays(NamedTuple):
    """Sequences (steps, features), the target of each where it is known, and what a message calls one of them."""

    series: list[Floats]
    targets: list[Any] | None
    places: list[str]


def is_series_file(file: Path) -> bool:
    """Whether a file is in the .ts format; programs in TypeScript have the same suffix."""
    if file.suffix.lower() != ".ts":
        return False
    lines = (line.strip() for line in islice(read_lines(file), 1000))
    return next((line for line in lines if line and line[0] != "#"), "").startswith("@")


def read_arrays(file: Path, split: str = "") -> Arrays:
    """The sequences and targets of a .ts or .npz file.

    Args:
        file: The file.
        split: Which of several splits of an .npz file; "" for all.

    Returns:
        One array (steps, features) per sequence, and its target.

    Raises:
        DataError: The file cannot be read, or has no arrays of known names.

    Example:
        read_arrays(Path("gestures.npz")).series[0].shape  # (steps, features)
    """
    return _read_npz(file, split) if file.suffix.lower() == ".npz" else _read_ts(file)


# ── .npz ──


def find_array_splits(file: Path) -> list[str]:
    """The splits of an .npz file; none where its arrays are not divided."""
    names = {name.lower() for name in _load(file)}
    return [split for split, ends in SPLITS.items() if any(f"x{end}" in names for end in ends)]


def _load(file: Path) -> dict[str, NDArray[Any]]:
    try:
        found = np.load(file, allow_pickle=False)
        if not isinstance(found, np.lib.npyio.NpzFile):
            raise ValueError("it is one array, as numpy.save writes it")
        with found:
            return {name: found[name] for name in found.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{file} cannot be read as .npz: {error}. Write plain arrays with numpy.savez.") from error


def _read_npz(file: Path, split: str) -> Arrays:
    arrays = {name.lower(): array for name, array in _load(file).items()}
    pairs = _find_pairs([*arrays], split)
    if not pairs:
        raise DataError(
            f"{file} has the arrays {', '.join(arrays)}, and none for {split or 'the sequences'}. Name them X and y, "
            "data and labels, or x_train, y_train, x_test and y_test."
        )
    return join_arrays([_pair(file, x, arrays[x], y, arrays.get(y)) for x, y in pairs])


def _find_pairs(names: Sequence[str], split: str) -> list[tuple[str, str]]:
    """The names of sequences and targets: those of one split, or of all of them, or those without splits."""
    wanted = [end for name, ends in SPLITS.items() if split in ("", name) for end in ends]
    divided = [(f"x{end}", f"y{end}") for end in wanted if f"x{end}" in names]
    if divided or split:
        return divided
    whole = [pair for pair in NAMES if {*pair} <= {*names}]
    return whole[:1] or ([NAMES[0]] if NAMES[0][0] in names else [])


def join_arrays(parts: Sequence[Arrays]) -> Arrays:
    """The sequences of several; targets only where all have them."""
    known = all(part.targets is not None for part in parts)
    targets = [one for part in parts for one in part.targets or ()]
    series = [one for part in parts for one in part.series]
    return Arrays(series, targets if known else None, [one for part in parts for one in part.places])


def _pair(file: Path, name: str, x: NDArray[Any], target: str, y: NDArray[Any] | None) -> Arrays:
    """Sequences (samples, steps) or (samples, steps, features), and their targets (samples,)."""
    if x.dtype.kind not in "biuf" or x.ndim not in (2, 3):
        raise DataError(
            f"{file}: `{name}` has shape {x.shape} and type {x.dtype}. Give numbers (samples, steps) or (samples, "
            "steps, features)."
        )
    if y is not None and y.size != len(x):
        raise DataError(f"{file}: `{target}` has shape {y.shape}, and `{name}` {len(x)} samples. Give one for each.")
    values = (x[:, :, None] if x.ndim == 2 else x).astype(np.float64)
    targets = None if y is None else y.ravel().tolist()
    return Arrays(list(values), targets, [f"{file}, {name}[{row}]" for row in range(len(x))])


# ── .ts ──


def _read_ts(file: Path) -> Arrays:
    header, rows = _split_ts(file)
    labelled = any(header.get(name, "").split(" ")[0] == "true" for name in ("classlabel", "targetlabel"))
    stamped = header.get("timestamps", "false").split(" ")[0] == "true"
    series: list[Floats] = []
    targets: list[str] = []
    places: list[str] = []
    problems = Problems()
    for case, (line, text) in enumerate(rows, 1):
        place = f"{file}, line {line}"
        values, _, target = text.rpartition(":") if labelled else (text, "", "")
        targets.append(target.strip())
        places.append(place)
        if not values:
            problems.add(f"{place}: there is no label. Write it after the numbers: 1,2,3:label.")
            continue
        try:
            own = _stack([_values(part, stamped) for part in values.split(":")])
        except ValueError as error:
            problems.add(f"{place}, case {case}: {error}.")
            continue
        if series and own.shape[1] != series[0].shape[1]:
            widths = f"{own.shape[1]} dimensions, and the cases before have {series[0].shape[1]}"
            problems.add(f"{place}, case {case}: {widths}. Give each case as many.")
            continue
        series.append(own)
    problems.refuse()
    if not series:
        raise DataError(f"{file} has no sequences below @data. Give some.")
    return Arrays(series, targets if labelled else None, places)


def _stack(dimensions: Sequence[Floats]) -> Floats:
    """The dimensions of a case as columns; refused where some are longer: at which steps values lack is not known."""
    lengths = [len(one) for one in dimensions]
    if len({*lengths}) > 1:
        listed = ", ".join(map(str, lengths[:10])) + ", …" * (len(lengths) > 10)
        raise ValueError(
            f"its {len(lengths)} dimensions have different lengths, {listed}. Cut them, or fill them in, to one length"
        )
    return np.stack(dimensions, axis=1)


def _split_ts(file: Path) -> tuple[dict[str, str], Iterator[tuple[int, str]]]:
    """What the lines with @ say, and the numbered lines after @data."""
    lines = ((number, line.strip()) for number, line in enumerate(read_lines(file), 1))
    filled = ((number, line) for number, line in lines if line and line[0] != "#")
    header: dict[str, str] = {}
    for _, line in filled:
        name, _, value = line.removeprefix("@").partition(" ")
        if name.lower() == "data":
            return header, filled
        header[name.lower()] = value.strip().lower()
    raise DataError(f"{file} has no line @data. Get the whole file.")


def _values(text: str, stamped: bool) -> Floats:
    entries = [value for _, value in STAMPED.findall(text)] if stamped else text.split(",")
    try:
        return np.array([float("nan") if entry.strip() == "?" else float(entry) for entry in entries], np.float64)
    except ValueError as error:
        raise ValueError(f"{error}. Give numbers") from error
