"""Names that C accepts, each given once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from unspool.errors import ArgumentError

RESERVED = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof "
    "main int32_t uint32_t int8_t uint8_t size_t"
)
KEYWORDS = frozenset(RESERVED.split())

STANDARD = (
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic "
    "stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype"
)
#: Headers of C itself: a file of such a name in a folder of headers would stand in their place.
STANDARD_HEADERS = frozenset(STANDARD.split())


def header_name(path: Path) -> str:
    """The file name of the header beside a C file; one that a line with `#include` cannot have is refused.

    Raises:
        ArgumentError: It cannot be in such a line, or is that of a header of C itself.

    Example:
        >>> header_name(Path("my model.c"))
        'my model.h'
    """
    name = path.with_suffix(".h").name
    if name.lower().removesuffix(".h") in STANDARD_HEADERS:
        raise ArgumentError.of(
            "path", str(path), f"would give a header {name}, which C itself has", "Give another name"
        )
    if not name.isprintable() or any(sign in name for sign in ('"', "\\", "??")):
        raise ArgumentError.of(
            "path", str(path), f"would give a header {name!r}, which C cannot include", "Give another name"
        )
    return name


def identifier(text: str) -> str:
    """A C identifier that resembles a text: other characters become underscores.

    Example:
        >>> identifier("2 layers–GRU")
        'm_2_layers_GRU'
    """
    plain = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_") or "model"
    reserved = plain in KEYWORDS or not plain[0].isalpha()
    return f"m_{plain}" if reserved else plain


class Names:
    """Hands out identifiers, none twice."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*KEYWORDS, *taken}

    def new(self, wanted: str) -> str:
        """`wanted` as an identifier, with a number behind it if it is taken."""
        base = re.sub(r"[^A-Za-z0-9_]", "_", wanted)
        base = base if base[:1].isalpha() else f"v{base}"
        name, number = base, 2
        while name in self._taken:
            name, number = f"{base}{number}", number + 1
        self._taken.add(name)
        return name
