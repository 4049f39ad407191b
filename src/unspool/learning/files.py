"""Files that are whole or not there: written beside, made durable, and put in place by one rename."""

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
from torch import Tensor

from unspool.errors import DataError, StorageError

#: The name of a file that is not yet in its place.
TEMPORARY = re.compile(r"\..+-[0-9a-f]{8}")
#: Where a file of tensors holds its facts; and the one that says what the others and the tensors come to.
ENTRY, SUM = "unspool", "crc32"
#: What to do where a file cannot be written, by what the system says.
REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "Make room, then go on with --resume"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Allow writing there, or give another --out"),
    **dict.fromkeys((errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOENT), "Give a folder, by another --out"),
    **dict.fromkeys((errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL), "Give another --out"),
}


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Inside, what cannot be written is a StorageError that names `path`."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, "Check the disk, then go on with --resume")
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}. What was there before is untouched. {remedy}."
        ) from error


def write_file(path: Path, content: bytes) -> None:
    """Put `content` at `path`: after a crash, at any moment, the old file is there or the new one."""
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
    """Make a folder, and those above it, if it is not there; a crash does not undo it."""
    with storing(path):
        if not path.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            sync(path.parent)


def find_temporaries(folder: Path, name: str = "*") -> list[Path]:
    """What writes of a file, or of any, that were cut off by a power failure or SIGKILL have left in a folder."""
    return [path for path in folder.glob(f".{name}-*") if TEMPORARY.fullmatch(path.name)]


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Tensors and facts about them, fit for JSON, as one safetensors file, put in place at once.

    The same tensors and facts give the same bytes.
    """
    # Copies, as the format has no tensors that share memory, which tied weights do.
    kept = {name: tensor.detach().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()}
    said = json.dumps({**facts, SUM: _sum(kept, facts)})  # one entry, as the format keeps several in no order
    write_file(path, safetensors.torch.save(kept, {ENTRY: said}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote; a file that was damaged since is refused."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            facts: dict[str, Any] = json.loads((file.metadata() or {}).get(ENTRY, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        if facts.pop(SUM, None) not in (None, _sum(tensors, facts)):
            raise ValueError("its bytes have changed since it was written")
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise DataError(f"{path} cannot be read: {error}. It is damaged or missing; take an earlier one.") from error
    return tensors, facts


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
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
