"""Shows a page inside a notebook."""

from __future__ import annotations

from unspool.insight.report.templating import templates_of


def frame(page: str, title: str, height: int = 800) -> str:
    """An iframe that holds the page: its styles and scripts stay in it, and it can reach nothing outside.

    Args:
        page: a whole document.
        title: what a screen reader says.
        height: in pixels.

    Returns:
        One HTML element.
    """
    template = templates_of("unspool.insight.report").get_template("frame.html.j2")
    return template.render(page=page, title=title, height=height)
