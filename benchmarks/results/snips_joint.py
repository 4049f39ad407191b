"""How well are the slots and the intent of SNIPS queries found by one model, without vectors that others have trained?

    python benchmarks/results/snips_joint.py snips --out runs/snips-joint

`snips` has the folders train, valid and test (13,084, 700 and 700 queries). A query's intent is the tag of a word that
is added at its end, so that one loss teaches both: what the slots are says much about the intent. The best weights are
chosen on valid, by the span F1 of slots and intents together; test is read once, at the end.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from snips import PARTS, row, run

from unspool.runs.load import load_run
from unspool.tasks.metrics import span_f1

#: What differs from the task's own defaults: nothing but its data.
SETTINGS: dict[str, Any] = {}
ADDED = "<intent>"


def write_columns(source: Path, target: Path) -> Path:
    """A part of SNIPS as a column file, with the intent as the last word's tag."""
    words, tags, intents = (
        (source / name).read_text(encoding="utf-8").splitlines() for name in ("seq.in", "seq.out", "label")
    )
    blocks = []
    for one, said, intent in zip(words, tags, intents, strict=True):
        pairs = [*zip(one.split(), said.split(), strict=True), (ADDED, f"B-{intent.strip()}")]
        blocks.append("".join(f"{word}\t{tag}\n" for word, tag in pairs))
    target.write_text("\n".join(blocks), encoding="utf-8")
    return target


def judge(folder: Path, file: Path) -> tuple[float, float]:
    """Accuracy of the intents, and span F1 of the slots alone."""
    _, task, learner = load_run(folder)
    part: Any = task.read([str(file)])  # type: ignore[attr-defined]
    said = list(task.predict(learner, part))  # type: ignore[attr-defined]
    truth = [sentence.tags for sentence in part.sentences]
    right = sum(one["tags"][-1] == tags[-1] for one, tags in zip(said, truth, strict=True)) / len(said)
    numbers = {tag: place for place, tag in enumerate(task.tags)}  # type: ignore[attr-defined]

    def spans(tags: Any) -> Any:
        return task.spans([numbers[tag] for tag in tags[:-1]])  # type: ignore[attr-defined]

    return right, span_f1([spans(tags) for tags in truth], [spans(one["tags"]) for one in said]).f1


if __name__ == "__main__":
    columns = {"both, span F1": "span F1", "accuracy of tags": "accuracy"}
    folder, snips = run(__doc__, "tag", SETTINGS, write_columns, ".conll", columns)
    print(row(["", "intent accuracy", "slot span F1"]) + "\n" + "|---" * 3 + "|")
    with tempfile.TemporaryDirectory() as kept:
        for part in PARTS[1:]:
            figures = judge(folder, write_columns(snips / part, Path(kept) / part))
            print(row([part, *(f"{100 * figure:.2f}" for figure in figures)]))
