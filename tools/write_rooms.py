"""Writes the table of rooms into CONTRIBUTING.md: `make docs`."""

from __future__ import annotations

import re
from pathlib import Path

from tools.rooms import table

PAGE = Path(__file__).parent.parent / "CONTRIBUTING.md"
BEGIN, END = "<!-- rooms: written by make docs -->\n", "<!-- end of rooms -->\n"


def written(text: str) -> str:
    """A page with the table as it should be."""
    marked = re.compile(f"(?<={re.escape(BEGIN)}).*?(?={re.escape(END)})", re.DOTALL)
    if not marked.search(text):
        raise ValueError(f"{PAGE.name} has no {BEGIN.strip()} before {END.strip()}")
    return marked.sub(lambda _: f"\n{table()}\n", text)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
