"""MathML from a few functions: letters, operators, indices, fractions."""

from __future__ import annotations

import re
from html import escape
from itertools import groupby

_PIECES = re.compile(r"[A-Za-zα-ωΑ-Ωℓ∂∞]+|[0-9.]+|\s+|.")


def formula(*parts: str) -> str:
    """An equation of parts, each MathML from a function here or text such as "h = f".

    A part "," ends an equation, and the next one begins, so that a narrow page can put it on a line of its own.
    """
    equations = [[*some] for ends, some in groupby(parts, key=lambda part: part == ",") if not ends]
    return "".join(f'<math display="block">{row(*some)}</math>' for some in equations)


def row(*parts: str) -> str:
    """Parts side by side."""
    return f"<mrow>{''.join(map(_part, parts))}</mrow>"


def sub(base: str, index: str) -> str:
    """A base with an index below."""
    return f"<msub>{row(base)}{row(index)}</msub>"


def sup(base: str, index: str) -> str:
    """A base with an index above."""
    return f"<msup>{row(base)}{row(index)}</msup>"


def both(base: str, below: str, above: str) -> str:
    """A base with indices below and above."""
    return f"<msubsup>{row(base)}{row(below)}{row(above)}</msubsup>"


def frac(above: str, below: str) -> str:
    """A fraction."""
    return f"<mfrac>{row(above)}{row(below)}</mfrac>"


def root(inside: str) -> str:
    """A square root."""
    return f"<msqrt>{row(inside)}</msqrt>"


def total(below: str) -> str:
    """A summation sign with its index."""
    return f"<munder><mo>∑</mo>{row(below)}</munder>"


def product(below: str) -> str:
    """A product sign with its index."""
    return f"<munder><mo>∏</mo>{row(below)}</munder>"


def norm(inside: str) -> str:
    """A norm: double bars around."""
    return row("<mo>‖</mo>", inside, "<mo>‖</mo>")


def _part(text: str) -> str:
    if text.startswith("<m"):
        return text
    return "".join(_element(piece) for piece in _PIECES.findall(text) if not piece.isspace())


def _element(piece: str) -> str:
    """A number, a letter or an operator."""
    if piece in "()|":  # else they grow as tall as the highest part beside them
        return f'<mo stretchy="false">{piece}</mo>'
    kind = "mn" if piece[0].isdigit() else "mi" if piece[0].isalpha() or piece in "∂∞" else "mo"
    return f"<{kind}>{escape(piece)}</{kind}>"
