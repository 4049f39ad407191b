"""Templates of pages: every text in them is escaped, and what is missing is an error."""

from __future__ import annotations

from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from unspool.harmless import for_page
from unspool.insight.report.equation import is_mathml
from unspool.insight.report.plain import to_json
from unspool.insight.report.severity import LOOKS

#: Characters of one text on a page; a token can have thousands.
LONGEST = 2000


@cache
def templates_of(package: str) -> Environment:
    """The templates in a package's folder `templates`, and those of reports, which they may extend.

    Filters: `text` shortens any text and drops what a page cannot hold; `json` writes data for a script element.
    Test: `mathml`, whether a text is MathML and nothing else.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("unspool.insight.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["text"] = lambda text, longest=LONGEST: for_page(text, longest)
    environment.filters["json"] = lambda value: Markup(to_json(value))  # to_json leaves no sign that HTML reads
    environment.tests["mathml"] = is_mathml
    environment.globals["LOOKS"] = LOOKS
    return environment
