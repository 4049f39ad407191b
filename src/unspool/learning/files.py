"""Files that are complete or not there: written under another name, made durable, and renamed."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from unspool.errors import DataError, StorageError
from unspool.learning.documents import check_regular

WINDOWS = os.name == "nt"
#: The name of a file that is not yet in its place.
TEMPORARY = re.compile(r"\..+-[0-9a-f]{8}")
#: The entry of a file of tensors that holds its facts; and the fact that is a checksum of the others and the tensors.
ENTRY, SUM = "unspool", "crc32"
#: What the format calls the types of elements that a model may have.
DTYPES = {
    **{torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.bool: "BOOL"},
    **{torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8"},
}
#: What reading a file of tensors may raise, whose bytes may be any.
UNREADABLE = (
    *(OSError, ValueError, TypeError, LookupError, RuntimeError, RecursionError, OverflowError),
    safetensors.SafetensorError,
)
#: What to do where a file cannot be written, by the system's error.
REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "Make room, then resume with `resume=True`"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Allow writing there, or give another `out`"),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOENT), "Give a folder as `out`"),
    **dict.fromkeys((errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL), "Give another `out`"),
}


class Form(NamedTuple):
    """What the header of a file says of a tensor."""

    dtype: str
    shape: tuple[int, ...]


class Header(NamedTuple):
    """What a file of tensors says of itself; no tensor is read for it, and so no checksum is compared."""

    forms: dict[str, Form]
    facts: dict[str, Any]


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """A context in which failures to write become a StorageError that names `path`."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "Check the disk, then resume with `resume=True`")
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}. What was there before is untouched. {remedy}."
        ) from error


def write_file(path: Path, content: bytes) -> None:
    """Write a file so that after a crash, at any moment, the old content is there or the new one."""
    name = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    with storing(path):
        try:
            with open(name, "xb") as stream:  # not a private temporary file: the umask decides who may read it
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(name, path)
            sync(path.parent)
        finally:
            name.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    """Make a folder and its parents, if they are missing; a crash does not undo it."""
    with storing(path):
        if not path.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            sync(path.parent)


def find_temporaries(folder: Path, name: str = "*") -> list[Path]:
    """What was left in a folder by writes, of one file or of any, that a power failure or SIGKILL cut off."""
    found = (path for path in folder.glob(f".{name}-*") if TEMPORARY.fullmatch(path.name))
    return [path for path in found if path.is_symlink() or not path.is_dir()]


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors, from any device, and facts about them, fit for JSON, as one safetensors file.

    The same tensors and facts give the same bytes.
    """
    # Copies on the CPU: the format has no tensors that share memory, as tied weights do.
    kept = {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    entry = json.dumps({**facts, SUM: _sum(kept, facts)})  # one, as the format keeps several in no order
    write_file(path, safetensors.torch.save(kept, {ENTRY: entry}))


def read_header(path: Path) -> Header:
    """The forms of the tensors in a file, and the facts that `write_tensors` was given, without reading a tensor."""
    with _reading(path), _open(path) as file:
        return Header(_forms(file), _facts(file))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote; a file that was damaged since, or has no checksum, is refused."""
    with _reading(path):
        with _open(path) as file:
            facts, tensors = _facts(file), _tensors(file)
        kept = facts.pop(SUM, None)
        if kept is None:
            raise ValueError("it has no checksum")
        if kept != _sum(tensors, facts):
            raise ValueError("its bytes have changed since it was written")
        return tensors, facts


def read_plain_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of any safetensors file, which need not have a checksum."""
    with _reading(path), _open(path) as file:
        return _tensors(file)


def forms_of(tensors: Mapping[str, Tensor]) -> dict[str, Form]:
    """The forms of tensors, such as those of a module's `state_dict`, which may be on the device "meta"."""
    return {name: Form(DTYPES.get(one.dtype, str(one.dtype)), tuple(one.shape)) for name, one in tensors.items()}


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
def _reading(path: Path) -> Iterator[None]:
    """A context in which failures to read become a DataError that names `path`."""
    try:
        yield
    except UNREADABLE as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error).removesuffix(".")
        raise DataError(f"{path} cannot be read: {said}. It is damaged or missing; use an earlier one.") from error


def _open(path: Path) -> Any:
    check_regular(path)
    return safetensors.safe_open(path, "pt")


def _facts(file: Any) -> dict[str, Any]:
    facts = json.loads((file.metadata() or {}).get(ENTRY, "{}"))
    if not isinstance(facts, dict):
        raise TypeError("its metadata has no entries by name")
    return facts


def _forms(file: Any) -> dict[str, Form]:
    slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    return {name: Form(one.get_dtype(), tuple(one.get_shape())) for name, one in slices.items()}


def _tensors(file: Any) -> dict[str, Tensor]:
    return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if WINDOWS and path.is_dir():
        return  # a folder cannot be opened there
    handle = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sum(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> str:
    total = zlib.crc32(json.dumps(facts).encode())
    for name, tensor in sorted(tensors.items()):
        total = zlib.crc32(f"{name} {tensor.dtype} {list(tensor.shape)}".encode(), total)
        total = zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data, total)
    return f"{total:08x}"
