"""Shows a page inside a notebook."""

from __future__ import annotations

from html import escape


def frame(page: str, title: str, height: int = 800) -> str:
    """An iframe that holds the page: its styles and scripts stay in it, and it can reach nothing outside."""
    return (
        f'<iframe title="{escape(title)}" sandbox="allow-scripts allow-downloads" width="100%" height="{height}" '
        f'style="border:0;border-radius:8px" srcdoc="{escape(page)}"></iframe>'
    )
