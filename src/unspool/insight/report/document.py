"""A whole page: what it says, then its data and the scripts that draw them, all in one file that loads nothing."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from unspool.insight.figures.theme import RELAYOUT
from unspool.insight.report.plain import to_json
from unspool.insight.report.templating import templates_of
from unspool.language import ENGLISH

#: Bytes of a whole page, and what its shell takes of them, most of which is plotly's script, compressed.
LARGEST, SHELL = 4_000_000, 2_200_000
#: Bytes of a page that its data may take.
ROOM = LARGEST - SHELL


def render_document(
    template: str,
    title: str,
    data: Mapping[str, str],
    scripts: Sequence[str],
    *,
    package: str = "unspool.insight.report",
    language: str = ENGLISH,
    **context: Any,
) -> str:
    """A page from a template.

    Args:
        template: its file.
        title: of the browser's window.
        data: ids of script elements with their JSON, as `to_json` writes it.
        scripts: files of `assets` that run after plotly.
        package: whose template it is.
        language: of the texts.
        context: what the template shows.

    Returns:
        The page as HTML.
    """
    themes = to_json({theme: update["template"] for theme, update in RELAYOUT.items()})
    first, then = read_asset("unpack.js"), [*map(read_asset, scripts)]
    return (
        templates_of(package)
        .get_template(template)
        .render(
            title=title,
            language=language,
            policy=_policy([first, _plotly(), *then]),
            style=Markup(read_asset("page.css")),
            data=[(name, Markup(text)) for name, text in {**data, "templates": themes}.items()],
            library=_packed(),
            first=Markup(first),
            then=[Markup(script) for script in then],
            **context,
        )
    )


def read_asset(name: str) -> str:
    """A style sheet or script that is kept beside this file."""
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    return str(get_plotlyjs())


@cache
def _packed() -> str:
    return base64.b64encode(gzip.compress(_plotly().encode(), compresslevel=6, mtime=0)).decode()


def _policy(scripts: Sequence[str]) -> str:
    """The page may run these scripts and reach nothing outside."""
    return "; ".join(
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


def _hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
