"""Texts whose label needs their order: "a before b" or "b before a", with other letters between."""

from __future__ import annotations

import random
from pathlib import Path


def ordered_texts(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Texts and labels; every text has one a and one b, so that no bag of letters tells them apart."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        first, second = ("a", "b") if number % 2 else ("b", "a")
        rest = ["".join(chance.choices("cdef", k=chance.randint(0, 4))) for _ in range(3)]
        found.append((rest[0] + first + rest[1] + second + rest[2], "ab" if number % 2 else "ba"))
    return found


def write_table(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return path
