"""Folders with seq.in, seq.out and label, as published data of slots and intents comes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

#: Words, tags and label of a sentence, as three lines.
Line = tuple[str, str, str]


def travel_lines(count: int) -> list[Line]:
    """Sentences whose intent is their verb, and whose slots are the word after "to", or "at"."""
    cities, hours = ("rome", "oslo", "lima", "cairo"), ("noon", "six", "dawn")
    found = []
    for number in range(count):
        city, hour = cities[number % 4], hours[number % 3]
        verb = ("book", "cancel")[number // 2 % 2]
        found.append((f"{verb} a flight to {city} at {hour}", "O O O O B-city O B-hour", f"{verb}_flight"))
    return found


def write_slots(folder: Path, lines: Sequence[Line], labels: bool = True) -> Path:
    """Write the three files of one part."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, name in enumerate(("seq.in", "seq.out", "label")):
        if name != "label" or labels:
            text = "".join(f"{line[place]}\n" for line in lines)
            (folder / name).write_text(text, encoding="utf-8")
    return folder


def write_parts(folder: Path, count: int = 60) -> Path:
    """Write train, valid and test."""
    lines = travel_lines(count)
    for name, own in (("train", lines), ("valid", lines[:12]), ("test", lines[12:24])):
        write_slots(folder / name, own)
    return folder
