"""How often is the intent of a SNIPS query understood, without vectors that others have trained?

    python benchmarks/results/snips_intents.py snips --out runs/snips-intents

`snips` has the folders train, valid and test (13,084, 700 and 700 queries), in each seq.in, the words of one query a
line, and label, one of seven intents. The best weights are chosen on valid; test is read once, at the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from snips import run

#: What differs from the task's own defaults: nothing but its data.
SETTINGS: dict[str, Any] = {}


def write_table(source: Path, target: Path) -> Path:
    """A part of SNIPS as a table of texts and labels."""
    texts, labels = ((source / name).read_text(encoding="utf-8").splitlines() for name in ("seq.in", "label"))
    rows = (f"{' '.join(text.split())}\t{label.strip()}\n" for text, label in zip(texts, labels, strict=True))
    target.write_text("".join(("text\tlabel\n", *rows)), encoding="utf-8")
    return target


if __name__ == "__main__":
    columns = {"accuracy": "accuracy", "macro-F1": "macro-F1"}
    run(__doc__, "classify", SETTINGS, write_table, ".tsv", columns)
