"""Files of tensors as NumPy arrays: safetensors with facts and a checksum, read whole or refused; without torch."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
from numpy.typing import NDArray

from unspool.errors import DataError
from unspool.storage.documents import check_regular

#: The entry of a file of tensors that holds its facts; and the fact that is a checksum of the others and the tensors.
ENTRY, SUM = "unspool", "crc32"
#: What reading a file of tensors may raise, whose bytes may be any.
UNREADABLE = (
    *(OSError, ValueError, TypeError, LookupError, RuntimeError, RecursionError, OverflowError),
    safetensors.SafetensorError,
)


class Form(NamedTuple):
    """What the header of a file says of a tensor."""

    dtype: str
    shape: tuple[int, ...]


class Header(NamedTuple):
    """What a file of tensors says of itself; no tensor is read for it, and so no checksum is compared."""

    forms: dict[str, Form]
    facts: dict[str, Any]


class Content(NamedTuple):
    """A tensor as its checksum sees it."""

    name: str
    dtype: str  # as torch writes it
    shape: list[int]
    data: Any  # a buffer of its bytes


def read_header(path: Path) -> Header:
    """The forms of the tensors in a file, and the facts that it was written with, without reading a tensor."""
    with reading(path), open_tensors(path) as file:
        return Header(_forms(file), read_facts(file))


def read_arrays(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read what `unspool.learning.files.write_tensors` wrote, as NumPy arrays.

    Args:
        path: The file, which may come from anywhere.

    Returns:
        The arrays by name, and the facts.

    Raises:
        DataError: It is not a regular file, was damaged since, or has no checksum.

    Example:
        arrays, facts = read_arrays(Path("runs/book/model.safetensors"))
    """
    with reading(path):
        with open_tensors(path) as file:
            facts, arrays = read_facts(file), read_all(file)
        for name, array in arrays.items():
            if array.dtype.kind not in "biuf":  # a package may have taught NumPy others, such as bfloat16
                raise ValueError(f"{name} is of type {array.dtype}, which NumPy does not have")
        check_sum(_contents(arrays), facts)
        return arrays, facts


def sum_arrays(arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> str:
    """The checksum that a file of these arrays and facts has."""
    return make_sum(_contents(arrays), facts)


def _contents(arrays: Mapping[str, NDArray[Any]]) -> Iterator[Content]:
    for name, array in arrays.items():
        yield Content(name, f"torch.{array.dtype.name}", [*array.shape], array.reshape(-1).view("uint8").data)


def check_sum(contents: Iterable[Content], facts: dict[str, Any]) -> None:
    """Refuse tensors and facts that are not those that a checksum was made of, and take it from the facts."""
    kept = facts.pop(SUM, None)
    if kept is None:
        raise ValueError("it has no checksum")
    if kept != make_sum(contents, facts):
        raise ValueError("its bytes have changed since it was written")


def make_sum(contents: Iterable[Content], facts: Mapping[str, Any]) -> str:
    """The checksum of tensors and facts."""
    total = zlib.crc32(json.dumps(facts).encode())
    for name, dtype, shape, data in sorted(contents, key=lambda one: one.name):
        total = zlib.crc32(f"{name} {dtype} {shape}".encode(), total)
        total = zlib.crc32(data, total)
    return f"{total:08x}"


def find_mismatch(expected: Mapping[str, Form], given: Mapping[str, Form]) -> str | None:
    """Describe the first tensor of a file that does not fit a model, and how many others do not; None if all fit."""
    wrong = [name for name in (*expected, *sorted(given.keys() - expected)) if expected.get(name) != given.get(name)]
    if not wrong:
        return None
    name, more = wrong[0], len(wrong) - 1
    both = [forms[name] for forms in (given, expected) if name in forms]
    by_type = len(both) == 2 and both[0].shape == both[1].shape
    here, there = (_describe(forms.get(name), by_type) for forms in (given, expected))
    return f"{name} is {here} in the file and {there} in the model{_say_more(more)}"


def _say_more(more: int) -> str:
    return f", and {more} more disagree{'s' * (more == 1)}" if more else ""


def _describe(form: Form | None, by_type: bool) -> str:
    if form is None:
        return "missing"
    return f"of type {form.dtype}" if by_type else f"of shape {form.shape}"


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """A context in which failures to read become a DataError that names `path`."""
    try:
        yield
    except UNREADABLE as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error).removesuffix(".")
        raise DataError(f"{path} cannot be read: {said}. It is damaged or missing; use an earlier one.") from error


def open_tensors(path: Path, framework: str = "numpy") -> Any:
    """Open a regular file of tensors, for arrays of NumPy or, with "pt", tensors of torch."""
    check_regular(path)
    return safetensors.safe_open(path, framework)


def read_facts(file: Any) -> dict[str, Any]:
    """The facts of an open file."""
    facts = json.loads((file.metadata() or {}).get(ENTRY, "{}"))
    if not isinstance(facts, dict):
        raise TypeError("its metadata has no entries by name")
    return facts


def _forms(file: Any) -> dict[str, Form]:
    slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    return {name: Form(one.get_dtype(), tuple(one.get_shape())) for name, one in slices.items()}


def read_all(file: Any) -> dict[str, Any]:
    """All tensors of an open file."""
    return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
