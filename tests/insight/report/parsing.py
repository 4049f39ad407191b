"""A page taken apart, for tests to look at."""

from __future__ import annotations

import base64
import gzip
import json
from html.parser import HTMLParser
from typing import Any


class Parsed(HTMLParser):
    """A page taken apart: its elements with their attributes, its text, and what its scripts hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self.inside: tuple[str, dict[str, str | None]] = ("", {})
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.inside = (tag, dict(attributes))
        self.elements.append(self.inside)
        if tag == "script":
            self.scripts.append((self.inside[1], ""))

    def handle_endtag(self, tag: str) -> None:
        self.inside = ("", {})

    def handle_data(self, data: str) -> None:
        if self.inside[0] == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self.inside[0] != "style":
            self.text += data

    def data(self, name: str) -> Any:
        (found,) = (text for attributes, text in self.scripts if attributes.get("id") == name)
        return json.loads(found)

    def run(self) -> list[str]:
        """The scripts that run: the page's own, and the library that draws, unpacked."""
        own = [text for each, text in self.scripts if "type" not in each or each.get("class") == "then"]
        packed = [text for each, text in self.scripts if each.get("type") == "application/gzip"]
        return own + [gzip.decompress(base64.b64decode(text)).decode() for text in packed]
