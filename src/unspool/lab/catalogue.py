"""The chapters by name; a chapter's file is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from unspool.errors import UnknownNameError
from unspool.lab.chapter import Chapter
from unspool.lab.claims import CLAIMS, DOCUMENTS, Claim


def find_chapter(name: str) -> Chapter:
    """The chapter of a claim, from `unspool/lab/chapters/<name>.py`."""
    claim = find_claim(name)
    chapter: Chapter = import_module(f"unspool.lab.chapters.{claim.name.replace('-', '_')}").CHAPTER
    return chapter


def find_claim(name: str) -> Claim:
    """A claim by the name of its chapter or by its id; an unknown name is refused with the nearest one.

    Example:
        >>> find_claim("adding").id, find_claim("S1-6").name
        ('S1-6', 'adding')
    """
    ids = {claim.id.lower(): claim for claim in CLAIMS.values()}
    found = CLAIMS.get(name) or ids.get(name.lower())
    if found is None:
        raise UnknownNameError.among("chapter", name, CLAIMS)
    return found


def select(names: Iterable[str] = (), document: str | None = None) -> list[Claim]:
    """The claims with these names, or all; only those of a document, if one is given."""
    chosen = [find_claim(name) for name in names] or list(CLAIMS.values())
    if document is None:
        return chosen
    if document.upper() not in DOCUMENTS:
        raise UnknownNameError.among("document", document, DOCUMENTS)
    return [claim for claim in chosen if claim.document == document.upper()]
