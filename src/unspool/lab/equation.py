"""From equations as people type them, such as `h_t = a h_{t−1} + x_t`, to MathML."""

from __future__ import annotations

import re

from unspool.insight.sections.formula import both, formula, row, sub, sup

#: A word or number, an index with or without braces, or any other sign.
_PIECE = re.compile(r"[_^]\{|[_^]\S|[A-Za-zα-ωΑ-Ωℓ∂∞]+|[0-9.]+|\s+|.")


def to_mathml(text: str) -> str:
    """Equations as MathML, one per line.

    Args:
        text: `_` and `^` begin indices of one sign, or of several in braces.

    Example:
        >>> to_mathml("x_t")
        '<math display="block"><mrow><msub><mrow><mi>x</mi></mrow><mrow><mi>t</mi></mrow></msub></mrow></math>'
    """
    return "".join(formula(_parse(line)) for line in text.splitlines() if line.strip())


def _parse(text: str) -> str:
    parts: list[str] = []
    place = 0
    while place < len(text):
        piece = _PIECE.match(text, place)
        assert piece is not None  # the last alternative takes any sign
        place = piece.end()
        if piece[0][0] not in "_^" or not parts:
            parts.append(piece[0] if piece[0].strip() else _space(text, piece.start(), place))
            continue
        indices, place = _indices(text, piece.start())
        parts.append(_attached(parts.pop(), indices))
    return row(*parts)


def _space(text: str, begin: int, end: int) -> str:
    """White space that is there for a word; beside letters and signs MathML knows better."""
    beside_a_word = any(len(two) == 2 and two.isalpha() for two in (text[:begin][-2:], text[end : end + 2]))
    return '<mspace width="0.3em"/>' if beside_a_word else ""


def _indices(text: str, place: int) -> tuple[dict[str, str], int]:
    """The indices that begin here, below and above, and where they end."""
    found: dict[str, str] = {}
    while place + 1 < len(text) and text[place] in "_^":
        sign, place = text[place], place + 1
        end = _closing(text, place) if text[place] == "{" else place
        found[sign] = _parse(text[place + 1 : end] if text[place] == "{" else text[place])
        place = end + 1
    return found, place


def _closing(text: str, place: int) -> int:
    """Where the brace that opens here is closed; the end of the text if it is not."""
    depth = 0
    for end in range(place, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if not depth:
            return end
    return len(text)


def _attached(base: str, indices: dict[str, str]) -> str:
    if len(indices) == 2:
        return both(base, indices["_"], indices["^"])
    return sub(base, indices["_"]) if "_" in indices else sup(base, indices["^"])
