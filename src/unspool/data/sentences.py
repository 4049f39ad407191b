"""Sentences, with or without tags, from all that holds them: column files, and folders with seq.in and seq.out."""

from __future__ import annotations

from unspool.data.layouts import find_layout, read_slots
from unspool.data.sources import find_items
from unspool.data.tagged import Sentence, read_tagged
from unspool.data.text import Source


def read_sentences(source: Source, tags: bool = True) -> list[Sentence]:
    """Read sentences.

    Args:
        source: Files, folders and patterns.
        tags: Whether tags are read.

    Returns:
        The sentences of all of them.

    Example:
        read_sentences("snips/train")[0].tags
    """
    found: list[Sentence] = []
    for path, _ in find_items(source):
        found += read_slots(path, tags) if find_layout(path) == "slots" else read_tagged(path, tags)
    return found
