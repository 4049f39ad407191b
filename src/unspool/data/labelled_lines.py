"""Lines that start with their label: `0 text`, TREC's `NUM:dist text`, fastText's `__label__x text`, `ham<tab>text`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from unspool.data.chunks import Columns, make_columns
from unspool.data.problems import Problems
from unspool.data.text import read_lines

FASTTEXT = "__label__"
#: How lines start, each form with the label as a group, in the order in which they are tried.
FORMS = (
    re.compile(rf"((?:{FASTTEXT}\S+\s+)*{FASTTEXT}\S+)\s*(.*)"),
    re.compile(r"([A-Z]{2,}:[a-z]+)\s+(.*)"),
    re.compile(r"(-?\d+)\s+(.*)"),
    re.compile(r"([^\t]{1,40})\t([^\t]*)"),
)
#: The forms above that anything may look like: few different labels must start many lines.
UNCERTAIN = FORMS[2:]
#: Lines per label, at least, where a form is uncertain.
LINES_PER_LABEL = 10


def find_form(lines: Sequence[str], certain: bool = False) -> re.Pattern[str] | None:
    """The form in which all of these lines start with a label; None if there is none.

    Args:
        lines: The first lines of a file.
        certain: Whether there must be labels, be they few or many.

    Example:
        find_form(["0 bad film\\n", "1 good film\\n"])
    """
    filled = [line.strip() for line in lines if line.strip()]
    if len(filled) < (1 if certain else 2):
        return None
    return next((form for form in FORMS if _fits(form, filled, certain)), None)


def _fits(form: re.Pattern[str], lines: Sequence[str], certain: bool) -> bool:
    found = [match.groups() for line in lines if (match := form.fullmatch(line))]
    return len(found) == len(lines) and (certain or form not in UNCERTAIN or _are_labels(found))


def _are_labels(found: Sequence[Sequence[str]]) -> bool:
    """Whether few different labels are followed by words."""
    labels = {label for label, _ in found}
    words = sum(any(map(str.isalpha, text)) for _, text in found)
    return len(labels) <= max(2, len(found) // LINES_PER_LABEL) and words > 0.9 * len(found)


def _split_labels(labels: str) -> list[str]:
    """The labels at the start of a line: only fastText has several."""
    if not labels.startswith(FASTTEXT):
        return [labels.strip()]
    return [label.removeprefix(FASTTEXT) for label in labels.split()]


def read_labelled_lines(file: Path, form: re.Pattern[str]) -> Columns:
    """Texts and labels; lines without a label are refused, all at once.

    Where lines of fastText have several labels, every label is a list as JSON writes it, so that none is taken for one
    label of several words.
    """
    texts: list[str | None] = []
    labels: list[list[str]] = []
    numbers: list[int] = []
    problems = Problems()
    for number, line in enumerate(read_lines(file), 1):
        if not line.strip():
            continue
        match = form.fullmatch(line.strip())
        if match is None:
            problems.add(f"{file}, line {number}: it starts with no label, as the others do. Write its label first.")
            continue
        labels.append(_split_labels(match[1]))
        texts.append(match[2])
        numbers.append(number)
    problems.refuse()
    several = any(len(own) > 1 for own in labels)
    cells: list[str | None] = [json.dumps(own, ensure_ascii=False) if several else own[0] for own in labels]
    return make_columns({"text": texts, "label": cells}, numbers)
