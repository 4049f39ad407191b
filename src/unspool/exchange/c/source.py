"""Source: a C file and its header while they are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from unspool.exchange.c import library
from unspool.exchange.c.names import identifier
from unspool.exchange.c.weights import MAGIC, Matrix, Weights
from unspool.runtime.network import Embedding, Linear

WIDTH = 118
TAKE = (
    "Take the bytes of the file of weights, which the caller keeps, and set the state before the first step.\n"
    "   Returns 0; -1 where the bytes are not aligned to 4; -2 where they are not a file of weights of this size and\n"
    "   byte order; -3 where they are the weights of another model; -4 where they are damaged. The state then is\n"
    "   as it was."
)

#: Numbers of floats: expressions of counts, and the floats per count.
Terms = Sequence[tuple[str, int]]


def indent(lines: Iterable[str], by: str = "    ") -> str:
    """Lines, which may have several lines each, further to the right."""
    return "".join(f"{by}{one}\n" if one else "\n" for line in lines for one in line.split("\n"))


@dataclass(frozen=True)
class Written:
    """The files of an export, complete: texts of the C file and the header, and the weights if they are separate.

    Attributes:
        name: The prefix of all names.
        code: The C file.
        header: Its header.
        blob: The weights, if they are separate.
        constants: The sizes that the header defines.
        weights_size: Bytes of the weights, wherever they are.
    """

    name: str
    code: str
    header: str
    blob: bytes | None
    constants: Mapping[str, int]
    weights_size: int = 0


@dataclass
class Source:
    """What has been written so far; `@_` stands for the prefix of all names.

    Attributes:
        name: The prefix, an identifier.
        weights: The numbers.
        header: The file name of the header.
        separate: Whether the numbers are a file of their own, to which the state keeps a pointer.
        functions: Static functions and, in the end, public ones.
        types: Declarations that the state needs.
        fields: Members of the state.
        start: Lines that initialize the members.
        public: Prototypes, each with a comment before it.
        constants: Macros of the header, by name.
        includes: Lines that a program needs at the top.
    """

    name: str
    weights: Weights
    header: str
    separate: bool = False
    functions: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)
    start: list[str] = field(default_factory=list)
    public: list[str] = field(default_factory=list)
    constants: dict[str, int] = field(default_factory=dict)
    includes: str = ""

    @classmethod
    def new(cls, name: str, int8: bool = False, separate: bool = False, header: str | None = None) -> Source:
        """An empty file for names that start with `name`."""
        prefix = identifier(name)
        return cls(prefix, Weights(int8, separate), header or f"{prefix}.h", separate)

    def function(self, text: str) -> None:
        """Add a static function."""
        self.functions.append(text)

    def export(self, comment: str, head: str, body: Iterable[str]) -> None:
        """Add a public function; `body` may use `w`, the weights, if `head` has the state `s`."""
        text = indent(body)
        known = f"    const @_weights *const w = {self.pointer};\n" if re.search(r"\bw\b", text) else ""
        unused = "    (void)s;\n" if "@_state *s" in head and not re.search(r"\bs\b", known + text) else ""
        self.public.append(f"/* {comment} */\n{head};\n")
        self.functions.append(f"{head}\n{{\n{known}{unused}{text}}}\n")

    def export_workspace(self, head: str, needs: Iterable[Terms], more: str = "") -> None:
        """Add the public function that says how many floats `run` needs: the largest of some sums of products."""
        body = ["size_t most = 0;"]
        for terms in needs:
            sums = [f"    total = @_room(total, {count}, {width});" for count, width in terms if width]
            body += ["{", "    size_t total = 0;", *sums, "    most = total > most ? total : most;", "}"]
        said = f"How many floats the workspace of `run` needs{more}; SIZE_MAX where no memory can hold them."
        self.export(said, f"size_t @_workspace({head})", [*body, "return most;"])

    def export_units(self, member: str) -> None:
        """Add the public function that gives the last output of the top layer, a member of the state."""
        comment = "The last output (units) of the top layer, for those who look inside."
        self.export(comment, "const float *@_units(const @_state *s)", [f"return s->{member};"])

    @property
    def pointer(self) -> str:
        """Where the weights are."""
        return "s->weights" if self.separate else "&@_constants"

    # ── statements ──

    def product(self, matrix: Matrix, x: str, y: str) -> str:
        """y += matrix · x."""
        sizes = f"{matrix.columns}, {matrix.rows}"
        if matrix.scale is None:
            return f"@_add_product({y}, {matrix.name}, {x}, {sizes});"
        return f"@_add_product_int8({y}, {matrix.name}, {matrix.scale}, {x}, {sizes});"

    def linear(self, name: str, linear: Linear) -> AffineMap:
        """Add the weights of an affine map."""
        matrix = self.weights.matrix(f"{name}_weight", linear.weight)
        bias = None if linear.bias is None else self.weights.vector(f"{name}_bias", linear.bias)
        return AffineMap(self, matrix, bias)

    def embedding(self, name: str, embedding: Embedding) -> Lookup:
        """Add the weights of an embedding."""
        ngrams = None if embedding.ngrams is None else self.weights.table(f"{name}_ngrams", embedding.ngrams)
        return Lookup(self.weights.table(name, embedding.weight), ngrams)

    # ── the files ──

    def finish(self, about: str) -> Written:
        """The texts, in which names have their prefix."""
        self._write_init()
        body = "\n".join(sorted(self.functions, key=lambda text: text.startswith("int main(")))
        root = library.SQRT + "\n" if "@_sqrt(" in body else ""
        numbers = "" if self.separate else self.weights.define() + "\n"
        used = library.used_by(body)
        code = (
            f"/* {about} */\n\n"
            + '#include "@.h"\n\n'
            + self.includes
            + root
            + (used + "\n" if used else "")
            + numbers
            + body
        )
        size = self.weights.size
        texts = self._named(code), self._named(self._header(about))
        return Written(self.name, *texts, self._blob(), self.constants, size)

    def _blob(self) -> bytes | None:
        return self.weights.blob() if self.separate else None

    def _named(self, text: str) -> str:
        text = re.sub(r"@@_([A-Z_0-9]+)", lambda found: f"{self.name.upper()}_{found[1]}", text)
        return text.replace("@_", f"{self.name}_").replace("@.h", self.header)

    def _header(self, about: str) -> str:
        guard = f"{self.name.upper()}_H"
        macros = "".join(f"#define @@_{name} {value}\n" for name, value in self.constants.items())
        keeps = ["const @_weights *weights;"] if self.separate else []
        members = indent((*keeps, *self.fields)) or "    char nothing;\n"
        state = f"typedef struct {{\n{members}}} @_state;\n"
        size = f"/* Bytes of the file of weights. */\n#define @@_WEIGHTS_SIZE {self.weights.size}\n\n"
        parts = [macros, size if self.separate else "", self.weights.declare(), *self.types, state, *self.public]
        inside = "\n".join(part for part in parts if part)
        opening = f"/* {about} */\n\n#ifndef {guard}\n#define {guard}\n\n#include <stddef.h>\n#include <stdint.h>\n\n"
        guarded = '#ifdef __cplusplus\nextern "C" {\n#endif\n\n'
        return f"{opening}{guarded}{inside}\n#ifdef __cplusplus\n}}\n#endif\n\n#endif\n"

    def _write_init(self) -> None:
        if not self.separate:
            self.export(
                "The state before the first step.", "void @_init(@_state *s)", self.start or ["s->nothing = 0;"]
            )
            return
        self.export("The state before the first step.", "void @_start(@_state *s)", self.start or ["(void)s;"])
        self.export(TAKE, "int @_init(@_state *s, const void *bytes, size_t size)", self._take_weights())

    def _take_weights(self) -> list[str]:
        """The body of `init`: nothing of the file is believed before its size, and no number before the checksum."""
        stamp = f"{self.weights.stamp():#010x}u"
        opening = "offsetof(@_weights, stamp) + sizeof given->stamp"
        return [
            "const @_weights *const given = (const @_weights *)bytes;",
            "if (bytes == NULL || (uintptr_t)bytes % 4 != 0)",
            "    return -1;",
            f"if (size != @@_WEIGHTS_SIZE || given->magic != {MAGIC:#010x}u",
            "    || given->size != (uint32_t)@@_WEIGHTS_SIZE)",
            "    return -2;",
            f"if (given->stamp != {stamp})",
            "    return -3;",
            f"if (@_crc32(0, (const unsigned char *)bytes + {opening}, size - ({opening})) != {stamp})",
            "    return -4;",
            "s->weights = given;",
            "@_start(s);",
            "return 0;",
        ]


@dataclass(frozen=True)
class AffineMap:
    """y = W x + b."""

    source: Source
    matrix: Matrix
    bias: str | None

    @property
    def outputs(self) -> int:
        return self.matrix.rows

    def lines(self, x: str, y: str) -> list[str]:
        """The statements for y = W x + b."""
        count = self.matrix.rows
        first = f"@_clear({y}, {count});" if self.bias is None else f"@_copy({y}, {self.bias}, {count});"
        return [first, self.source.product(self.matrix, x, y)]


@dataclass(frozen=True)
class Lookup:
    """y = row of a table."""

    table: Matrix
    ngrams: Matrix | None

    @property
    def width(self) -> int:
        return self.table.columns

    def lines(self, token: str, y: str) -> list[str]:
        """The statements for y = E[token], a token that `refuse_unknown` has let through."""
        return [f"@_clear({y}, {self.width});", add_row(self.table, f"(size_t){token}", y)]


def refuse_unknown(ids: str, count: str, tokens: int, result: str = "-1") -> list[str]:
    """Statements that return `result` where one of so many ids is not one of the model's."""
    return [f"if (!@_known({ids}, {count}, {tokens}))", f"    return {result};"]


#: What comments say about the functions that check ids.
REFUSED = "-1, and nothing is read, where an id is not one of the model's; 0 otherwise"


def add_row(table: Matrix, row: str, y: str) -> str:
    """y += a row of a table."""
    if table.scale is None:
        return f"@_add_row({y}, {table.name}, {row}, {table.columns});"
    return f"@_add_row_int8({y}, {table.name}, {table.scale}, {row}, {table.columns});"
