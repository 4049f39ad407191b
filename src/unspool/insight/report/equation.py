"""Whether an equation is MathML and nothing else, so that a page may hold it as it is."""

from __future__ import annotations

import re
from xml.etree import ElementTree

TAG = re.compile(
    r"math|mrow|mi|mn|mo|ms|mtext|mspace|m(sub|sup|subsup|under|over|underover)|mfrac|msqrt|mroot|mtable|mtr|mtd|mstyle"
    r"|mpadded|mphantom|mmultiscripts|mprescripts|menclose"
)
ATTRIBUTE = re.compile(
    r"display|displaystyle|scriptlevel|mathvariant|stretchy|fence|separator|form|[lr]space|width|height|depth|accent"
    r"|accentunder|largeop|movablelimits|symmetric|m(in|ax)size|linethickness|columnalign|(row|column)spacing|notation"
)


def is_mathml(source: str) -> bool:
    """Whether the text is one or several `math` elements with harmless elements and attributes inside.

    Example:
        >>> is_mathml("<math><mi>x</mi></math>"), is_mathml("<script>1</script>")
        (True, False)
    """
    if "<!" in source or "<?" in source:  # HTML ends comments and the like elsewhere than XML does
        return False
    try:
        tree = ElementTree.fromstring(f"<div>{source}</div>")
    except ElementTree.ParseError:
        return False
    return not (tree.text or "").strip() and all(_is_math(child) for child in tree)


def _is_math(element: ElementTree.Element) -> bool:
    if (element.tail or "").strip() or element.tag.rpartition("}")[2] != "math":
        return False
    return all(
        TAG.fullmatch(inner.tag.rpartition("}")[2]) and all(map(ATTRIBUTE.fullmatch, inner.attrib))
        for inner in element.iter()
    )
