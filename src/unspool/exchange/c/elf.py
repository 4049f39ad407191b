"""How much flash and memory a compiled object takes, from its sections."""

from __future__ import annotations

import struct

from unspool.errors import DataError

#: Flags of a section: it is in memory while the program runs, and may be written to.
ALLOCATED, WRITABLE = 2, 1
#: The kind of a section that has no bytes in the file.
NO_BITS = 8


def section_sizes(image: bytes) -> dict[str, int]:
    """The bytes of flash and of memory that a 32-bit ELF file takes.

    Args:
        image: An object or a program, such as `compile_with_zig` gives.

    Returns:
        "flash": code, constants and initial values; "ram": variables. The stack is in neither.

    Raises:
        DataError: It is no such file.

    Example:
        section_sizes(compile_with_zig(written, CORTEX_M4))["flash"]
    """
    if image[:5] != b"\x7fELF\x01" or len(image) < 52:
        raise DataError("the image is not a 32-bit ELF file. Compile for a 32-bit target.")
    start, size, count = struct.unpack_from("<I", image, 32)[0], *struct.unpack_from("<HH", image, 46)
    found = {"flash": 0, "ram": 0}
    for number in range(count):
        _, kind, flags, _, _, length = struct.unpack_from("<6I", image, start + number * size)
        if flags & ALLOCATED:
            found["ram"] += length if flags & WRITABLE else 0
            found["flash"] += 0 if kind == NO_BITS else length
    return found
