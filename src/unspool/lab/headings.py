"""The headings of the source documents, and which chapters are about each, as `headings.toml` lists them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from unspool.lab.claims import Claim
from unspool.language import ENGLISH, Translator


@dataclass(frozen=True)
class Heading:
    """One heading of a document.

    Attributes:
        heading: as it stands in the document.
        english: its translation.
        chapters: the names of the chapters about it.
    """

    heading: str
    english: str
    chapters: tuple[str, ...]

    def title(self, translate: Translator) -> str:
        """The heading for a reader: in English with the original beside it, else the original alone."""
        if translate.language == ENGLISH and self.english != self.heading:
            return f"{self.english} ({self.heading})"
        return self.heading


@cache
def headings_of(document: str) -> tuple[Heading, ...]:
    """The headings of a document, such as `S1`, in their order."""
    text = resources.files(__package__).joinpath("headings.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)[document]
    return tuple(Heading(entry["heading"], entry["english"], tuple(entry["chapters"])) for entry in entries)


def heading_of(claim: Claim, translate: Translator) -> str:
    """The heading of a claim in the reader's language."""
    found = next(one for one in headings_of(claim.document) if one.heading == claim.heading)
    return found.english if translate.language == ENGLISH else found.heading
