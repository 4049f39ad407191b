"""Weights: the numbers of a model as one C struct, in float32 or with matrices in int8."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from unspool.engine.rounding import quantize
from unspool.errors import DataError
from unspool.exchange.c.names import Names
from unspool.runtime.network import Array

PER_LINE = 8
#: What a file of weights begins with, read as one number: another number, or another order of its bytes, is refused.
MAGIC = 0x57505355


@dataclass(frozen=True)
class Matrix:
    """A matrix (outputs, inputs) of the struct, kept with the inputs first; or a table (rows, width), kept as it is.

    Attributes:
        name: The member of the struct.
        scale: The member with the scale of each row; None in float32.
        rows: Outputs of a matrix, or rows of a table.
        columns: Inputs of a matrix, or the width of a table.
    """

    name: str
    scale: str | None
    rows: int
    columns: int


@dataclass
class Weights:
    """The members of the struct `@_weights`, floats first, then whole numbers of 8 bits.

    Attributes:
        int8: Whether matrices are kept in int8, with a scale per row.
        separate: Whether they are a file of their own, which then begins with a magic number, its size and a checksum.
    """

    int8: bool = False
    separate: bool = False
    floats: dict[str, Array] = field(default_factory=dict)
    whole: dict[str, Array] = field(default_factory=dict)
    _names: Names = field(default_factory=lambda: Names(["magic", "size", "stamp", "padding"]))

    def vector(self, name: str, values: Array) -> str:
        """Add a vector, or any array that is read element by element; returns its expression in C."""
        member = self._names.new(name)
        self.floats[member] = _finite(name, values).ravel()
        return f"w->{member}"

    def matrix(self, name: str, values: Array) -> Matrix:
        """Add a matrix (outputs, inputs) that products read."""
        return self._add(name, values, transposed=True)

    def table(self, name: str, values: Array) -> Matrix:
        """Add a table (rows, width) of which single rows are read."""
        return self._add(name, values, transposed=False)

    def _add(self, name: str, values: Array, transposed: bool) -> Matrix:
        member, rows, columns = self._names.new(name), *values.shape
        exact = _finite(name, values)
        if not self.int8:
            self.floats[member] = (exact.T if transposed else exact).ravel()
            return Matrix(f"w->{member}", None, rows, columns)
        numbers, scales = quantize(exact)
        scale = self._names.new(f"{name}_scale")
        self.floats[scale] = scales
        self.whole[member] = (numbers.T if transposed else numbers).ravel()
        return Matrix(f"w->{member}", f"w->{scale}", rows, columns)

    @property
    def padding(self) -> int:
        """Bytes behind the last member, so that the struct is a multiple of four bytes long."""
        return -sum(map(len, self.whole.values())) % 4

    @property
    def size(self) -> int:
        """Bytes of the struct."""
        numbers = 4 * sum(map(len, self.floats.values())) + sum(map(len, self.whole.values()))
        return 4 * len(self._opening) + numbers + self.padding

    @property
    def _opening(self) -> tuple[tuple[str, str], ...]:
        """The members before the numbers, and what each is."""
        stamp = ("stamp", "CRC-32 of the bytes behind it")
        if not self.separate:
            return (stamp,)
        return ("magic", "the same in every file of weights"), ("size", "bytes of the file"), stamp

    def stamp(self) -> int:
        """A checksum of the numbers, which are behind it; the last member before them."""
        return zlib.crc32(self._content())

    def blob(self) -> bytes:
        """The struct as a little-endian machine has it in memory."""
        opening = {"magic": MAGIC, "size": self.size % 2**32, "stamp": self.stamp()}
        return b"".join(opening[name].to_bytes(4, "little") for name, _ in self._opening) + self._content()

    def declare(self) -> str:
        """The type of the struct."""
        lines = [f"    uint32_t {name}; /* {said} */" for name, said in self._opening]
        lines += [f"    float {name}[{len(values)}];" for name, values in self.floats.items()]
        lines += [f"    int8_t {name}[{len(values)}];" for name, values in self.whole.items()]
        lines += [f"    int8_t padding[{self.padding}];"] if self.padding else []
        return "typedef struct {\n" + "\n".join(lines) + "\n} @_weights;\n"

    def define(self) -> str:
        """The struct with its numbers, as a constant."""
        parts = [f"    .stamp = {self.stamp():#010x}u"]
        parts += [f"    .{name} = {{\n{_lines(map(_float, values.tolist()))}}}" for name, values in self.floats.items()]
        parts += [f"    .{name} = {{\n{_lines(map(str, values.tolist()), 24)}}}" for name, values in self.whole.items()]
        parts += ["    .padding = {0}"] if self.padding else []
        return "static const @_weights @_constants = {\n" + ",\n".join(parts) + "};\n"

    def _content(self) -> bytes:
        floats = [values.astype("<f4").tobytes() for values in self.floats.values()]
        return b"".join((*floats, *(values.tobytes() for values in self.whole.values()), bytes(self.padding)))


def _finite(name: str, values: Array) -> Array:
    found = np.asarray(values, np.float32)
    if not np.isfinite(found).all():
        raise DataError(f"the weights {name} are not all finite. Train again with a smaller `lr`, or `clip`.")
    return found


def _float(value: float) -> str:
    """Nine significant digits tell every float32 from every other."""
    text = f"{value:.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.f"


def _lines(numbers: Iterator[str], per_line: int = PER_LINE) -> str:
    texts = list(numbers)
    rows = (texts[first : first + per_line] for first in range(0, len(texts), per_line))
    return ",\n".join(f"        {', '.join(row)}" for row in rows)
