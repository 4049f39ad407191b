"""The shell of every page: inert text, embedded scripts, and a content policy that reaches nothing outside."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from plotly.offline import get_plotlyjs

from unspool.errors import ArgumentError
from unspool.insight.figures.theme import RELAYOUT
from unspool.insight.report.plain import to_json

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Characters of one piece of text on a page; a token can have thousands.
LONGEST = 2000
#: Pictures by WebGL, for which plotly makes code from strings, and maps, which it loads: the policy forbids both.
UNDRAWABLE = re.compile(
    r".*gl$|.*3d$|.*map$|.*mapbox$|.*geo$|surface|volume|isosurface|cone|streamtube|parcoords|splom|choropleth"
)
FLAT = ("heatmap", "treemap")
HEIGHT = 420
MATH_TAG = re.compile(
    r"math|mrow|mi|mn|mo|ms|mtext|mspace|m(sub|sup|subsup|under|over|underover)|mfrac|msqrt|mroot|mtable|mtr|mtd|mstyle"
    r"|mpadded|mphantom|mmultiscripts|mprescripts|menclose"
)
MATH_ATTRIBUTE = re.compile(
    r"display|displaystyle|scriptlevel|mathvariant|stretchy|fence|separator|form|[lr]space|width|height|depth|accent"
    r"|accentunder|largeop|movablelimits|symmetric|m(in|ax)size|linethickness|columnalign|(row|column)spacing|notation"
)


def inert(text: object, longest: int = LONGEST) -> str:
    """Text from data as HTML that shows it and does nothing; `bdi` keeps its direction from what stands around it."""
    return f"<bdi>{bare(text, longest)}</bdi>"


def bare(text: object, longest: int = LONGEST) -> str:
    """Text from data for attributes and titles: escaped, cut where it is very long, without halves of characters."""
    said = str(text)
    cut = said if len(said) <= longest else f"{said[:longest]}… ({len(said):,} characters)"
    return html.escape(cut.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd"))


def show_equation(source: str) -> str:
    """MathML as it is, if it is nothing else; anything else as text."""
    try:
        tree = ElementTree.fromstring(f"<div>{source}</div>")
    except ElementTree.ParseError:
        tree = None
    if tree is not None and not (tree.text or "").strip() and all(_is_math(child) for child in tree):
        return source
    return f"<code>{inert(source)}</code>"


def _is_math(element: ElementTree.Element) -> bool:
    if (element.tail or "").strip() or element.tag.rpartition("}")[2] != "math":
        return False
    return all(
        MATH_TAG.fullmatch(inner.tag.rpartition("}")[2]) and all(map(MATH_ATTRIBUTE.fullmatch, inner.attrib))
        for inner in element.iter()
    )


def embed(name: str, value: Any) -> str:
    """Data inside the page, which no browser runs."""
    return f'<script type="application/json" id="{name}">{to_json(value)}</script>'


def embed_figure(name: str, figure: Figure, ranges: Mapping[str, list[float]] = MappingProxyType({})) -> str:
    """A picture's data inside the page, with `ranges` for axes that have none of their own.

    Pictures that the page's policy would leave empty are refused.
    """
    for trace in figure.data:
        if trace.type not in FLAT and UNDRAWABLE.fullmatch(trace.type):
            raise ArgumentError.of(
                "figure", trace.type, "cannot be drawn offline without running made-up code", "Use a flat SVG trace"
            )
    drawing = json.loads(figure.to_json())
    drawing["layout"].pop("template", None)  # the page has one for light and one for dark
    for axis, each in ranges.items():
        drawing["layout"].setdefault(axis, {}).setdefault("range", each)
    return embed(name, drawing)


def place_figure(name: str, figure: Figure, says: str, *, film: bool = False) -> str:
    """Where the script draws a picture, or those of a film; `says` is what a screen reader says in its place."""
    height = int(figure.layout.height or HEIGHT)
    return (
        f'<div class="plot" data-{"film" if film else "figure"}="{name}" style="height:{height}px" role="img" '
        f'aria-label="{bare(says)}"></div>'
    )


def asset(name: str) -> str:
    """A style or script that is kept beside this file."""
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    return str(get_plotlyjs())


def document(title: str, body: str, data: Sequence[str], *, kind: str, film: bool = False) -> str:
    """A whole page: what it says, then its data and the scripts that draw them."""
    scripts = [_plotly(), asset("page.js"), *([asset("film.js")] if film else [])]
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(_hash(script) for script in scripts)}",
            "style-src 'unsafe-inline'",  # plotly places its drawings by style attributes
            "img-src data: blob:",
            "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{bare(title, 200)}</title>"
        f"<style>{asset('page.css')}</style>"
    )
    templates = {theme: update["template"] for theme, update in RELAYOUT.items()}
    tail = embed("templates", templates) + "".join(f"<script>{script}</script>" for script in scripts)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body class="{kind}">\n'
        f"{body}\n{''.join(data)}\n{tail}\n</body></html>\n"
    )


def _hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
