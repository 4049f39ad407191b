"""Memories of sessions as bytes: versioned, with a checksum, and bound to the model that made them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence

import numpy as np

from unspool.errors import DataError
from unspool.runtime.network import Array

#: The first bytes, the version, the digest of the model, steps so far, and how many recent ids follow the arrays.
HEAD = struct.Struct("<8sH32sqH")
MAGIC, VERSION = b"unspool\0", 1
CHECKSUM = 32
#: The most steps that a session can have read.
FURTHEST = 2**62
REMEDY = "Start a new session, or restore the one that was saved"


def dump(digest: bytes, position: int, recent: Sequence[int], memory: Sequence[Array]) -> bytes:
    """What `load` reads.

    Args:
        digest: Of the model, 32 bytes.
        position: Steps so far.
        recent: The last ids, for the text that comes next.
        memory: Arrays of one row.
    """
    ids = np.asarray(recent, "<i8").tobytes()
    body = HEAD.pack(MAGIC, VERSION, digest, position, len(recent)) + ids + b"".join(_bytes(part) for part in memory)
    return body + hashlib.sha256(body).digest()


def load(
    blob: object, digest: bytes, like: Sequence[Array], most_recent: int, tokens: int
) -> tuple[int, list[int], list[Array]]:
    """The position, the recent ids and the memory that `dump` was given.

    Args:
        blob: Of unknown origin.
        digest: Of the model that is to go on with it.
        like: Arrays of the shapes and types that it must have.
        most_recent: The most recent ids that there can be.
        tokens: How many tokens there are.

    Raises:
        DataError: It is not a session, is damaged, of another version, of another model, or holds impossible numbers.
    """
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise DataError(f"a session is saved as bytes, not as {type(blob).__name__}. {REMEDY}.")
    size = HEAD.size + sum(part.nbytes for part in like) + CHECKSUM
    data = _check(_view(blob), digest, size, most_recent)
    _, _, _, position, count = HEAD.unpack_from(data)
    recent = np.frombuffer(data, "<i8", count, HEAD.size).tolist()
    if not 0 <= position <= FURTHEST or not all(0 <= token < tokens for token in recent):
        raise DataError(f"the session holds ids or a position that cannot be. {REMEDY}.")
    return position, recent, _split(data[HEAD.size + 8 * count :], like)


def _view(blob: bytes | bytearray | memoryview) -> memoryview:
    try:
        return memoryview(blob).cast("B")
    except (TypeError, ValueError) as error:  # parts of a memory with gaps between them
        raise DataError(f"these bytes are not a saved session: {error}. {REMEDY}.") from error


def _check(data: memoryview, digest: bytes, size: int, most_recent: int) -> memoryview:
    """The bytes without their checksum, if all of them are as they must be."""
    if len(data) < HEAD.size + CHECKSUM or bytes(data[:8]) != MAGIC:
        raise DataError(f"these {len(data)} byte(s) are not a saved session. {REMEDY}.")
    _, version, made_by, _, count = HEAD.unpack_from(data)
    if version != VERSION:
        raise DataError(f"the session is of version {version}, and this is for version {VERSION}. {REMEDY}.")
    if count > most_recent or len(data) != size + 8 * count:
        expected = "another model, or is cut off or too long"
        raise DataError(f"the session is of {expected}: it has {len(data)} byte(s), not {size + 8 * count}. {REMEDY}.")
    body = data[:-CHECKSUM]
    if hashlib.sha256(body).digest() != bytes(data[-CHECKSUM:]):
        raise DataError(f"the session is damaged: its checksum does not fit. {REMEDY}.")
    if made_by != digest:
        raise DataError(f"the session is of another model, or of this one played in another way. {REMEDY}.")
    return body


def _split(data: memoryview, like: Sequence[Array]) -> list[Array]:
    memory, at = [], 0
    for part in like:
        found = np.frombuffer(data, part.dtype.newbyteorder("<"), part.size, at).astype(part.dtype).reshape(part.shape)
        if not np.isfinite(found).all():
            raise DataError(f"the session holds NaN or infinity. {REMEDY}.")
        memory.append(found)
        at += part.nbytes
    return memory


def _bytes(part: Array) -> bytes:
    return part.astype(part.dtype.newbyteorder("<"), copy=False).tobytes()
