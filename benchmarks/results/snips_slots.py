"""How well are the slots of SNIPS queries found, without vectors that others have trained?

    python benchmarks/results/snips_slots.py snips --out runs/snips-slots

`snips` has the folders train, valid and test (13,084, 700 and 700 queries), in each seq.in, the words of one query a
line, and seq.out, their tags. The best weights are chosen on valid; test is read once, at the end. A span counts if its
kind and both its ends are right.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from snips import run

#: What differs from the task's own defaults: nothing but its data.
SETTINGS: dict[str, Any] = {}


def write_columns(source: Path, target: Path) -> Path:
    """A part of SNIPS as a column file."""
    words, tags = ((source / name).read_text(encoding="utf-8").splitlines() for name in ("seq.in", "seq.out"))
    queries = [zip(one.split(), said.split(), strict=True) for one, said in zip(words, tags, strict=True)]
    blocks = ("".join(f"{word}\t{tag}\n" for word, tag in query) for query in queries)
    target.write_text("\n".join(blocks), encoding="utf-8")
    return target


if __name__ == "__main__":
    columns = {"span F1": "span F1", "precision": "precision", "recall": "recall", "accuracy of tags": "accuracy"}
    run(__doc__, "tag", SETTINGS, write_columns, "", columns)
