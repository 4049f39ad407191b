"""Files that are whole or not there: written beside, made durable, and put in place by one rename."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from unspool.errors import DataError, StorageError


def write_file(path: Path, content: bytes) -> None:
    """Put `content` at `path`: after a crash, at any moment, the old file is there or the new one."""
    name = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with open(name, "xb") as stream:  # not a private temporary file: the umask decides who may read it
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}. What was there before is untouched. Make room, then "
            "go on with --resume."
        ) from error
    finally:
        name.unlink(missing_ok=True)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, str]) -> None:
    """Tensors and words about them as one safetensors file, put in place at once."""
    kept = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    write_file(path, safetensors.torch.save(kept, dict(facts)))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What `write_tensors` wrote."""
    try:
        with safetensors.safe_open(path, "pt") as file:
            facts: dict[str, Any] = file.metadata() or {}
            return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118 - not a dict
    except (OSError, safetensors.SafetensorError) as error:
        raise DataError(f"{path} cannot be read: {error}. It is damaged or missing; take an earlier one.") from error


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
