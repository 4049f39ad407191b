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
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from unspool.errors import DataError, StorageError

WINDOWS = os.name == "nt"
#: The name of a file that is not yet in its place.
TEMPORARY = re.compile(r"\..+-[0-9a-f]{8}")
#: The entry of a file of tensors that holds its facts; and the fact that is a checksum of the others and the tensors.
ENTRY, SUM = "unspool", "crc32"
#: What to do where a file cannot be written, by the system's error.
REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "Make room, then resume with `resume=True`"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Allow writing there, or give another `out`"),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOENT), "Give a folder as `out`"),
    **dict.fromkeys((errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL), "Give another `out`"),
}


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
    return [path for path in folder.glob(f".{name}-*") if TEMPORARY.fullmatch(path.name)]


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


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote; a file that was damaged since is refused."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            facts: dict[str, Any] = json.loads((file.metadata() or {}).get(ENTRY, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        if facts.pop(SUM, None) not in (None, _sum(tensors, facts)):
            raise ValueError("its bytes have changed since it was written")
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise DataError(f"{path} cannot be read: {error}. It is damaged or missing; use an earlier one.") from error
    return tensors, facts


def find_mismatch(module: nn.Module, tensors: Mapping[str, Tensor]) -> str | None:
    """Describe the first tensor that does not fit a module, and how many others do not; None if all fit."""
    expected = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    given = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    wrong = [name for name in (*expected, *sorted(given.keys() - expected)) if expected.get(name) != given.get(name)]
    if not wrong:
        return None
    name, more = wrong[0], len(wrong) - 1
    here, there = (f"of shape {shapes[name]}" if name in shapes else "missing" for shapes in (given, expected))
    others = f", and {more} more disagree{'s' * (more == 1)}" if more else ""
    return f"{name} is {here} in the file and {there} in the model{others}"


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
