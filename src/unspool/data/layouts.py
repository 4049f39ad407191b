"""Folders that are data sets: one file or one subfolder per class, or seq.in, seq.out and label side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from unspool.data.chunks import Chunk, read_whole
from unspool.data.names import PART_NAMES, are_numbered_classes, are_shards, is_about
from unspool.data.problems import Problems
from unspool.data.tagged import Sentence
from unspool.data.text import read_lines
from unspool.errors import DataError

Layout = Literal["slots", "class files", "class folders"]

#: Names of subfolders whose texts have no label.
UNLABELLED = ("unsup", "unlabeled", "unlabelled")
WORDS, TAGS, LABELS = "seq.in", "seq.out", "label"
#: Bytes of the files of a class folder, on average: books are longer.
SHORT = 1 << 16


def find_layout(folder: Path) -> Layout | None:
    """How a folder holds labelled texts; None if it does not."""
    if not folder.is_dir():
        return None
    if (folder / WORDS).is_file() and any((folder / name).is_file() for name in (TAGS, LABELS)):
        return "slots"
    if len(class_folders(folder)) > 1:
        return "class folders"
    return "class files" if len(class_files(folder)) > 1 else None


def class_files(folder: Path) -> list[Path]:
    """The files that are classes: texts, but not licenses and the like, nor parts or pieces of the data."""
    files = [file for file in sorted(folder.glob("*")) if file.is_file() and not is_about(file)]
    plain = all(file.suffix.lower() in ("", ".txt") for file in files)
    if len(files) > 1 and are_shards(files) and not are_numbered_classes(files):
        return []
    return files if plain and not _are_parts(file.stem for file in files) else []


def _are_parts(names: Iterable[str]) -> bool:
    """Whether a name is that of a part of the data, such as train."""
    return not PART_NAMES.keys().isdisjoint(name.lower() for name in names)


def class_folders(folder: Path) -> list[Path]:
    """The subfolders that are classes: those with texts right in them."""
    found = [one for one in sorted(folder.glob("*")) if one.is_dir() and one.name[0] != "."]
    if _are_parts(one.name for one in found):
        return []
    return list(filter(_is_class, found))


def _is_class(folder: Path) -> bool:
    return folder.name.lower() not in UNLABELLED and bool(class_texts(folder))


def class_texts(folder: Path) -> list[Path]:
    """The texts of a class folder, in order, without those that are about the data.

    A pipe or a device is no text: reading it may never end.
    """
    return [file for file in sorted(folder.glob("*.txt")) if file.is_file() and not is_about(file)]


def looks_labelled(folder: Path) -> bool:
    """Whether a folder of texts is labelled, and not just a collection of books.

    Files of a class have an example on each line, and so no empty ones, which books have between paragraphs. The files
    of a class folder are examples, and so there are several, which are short.
    """
    layout = find_layout(folder)
    if layout == "class files":
        return all(_has_examples(file) for file in class_files(folder))
    if layout == "class folders":
        return _have_short_examples([class_texts(one) for one in class_folders(folder)])
    return layout is not None


def _have_short_examples(files: Sequence[Sequence[Path]]) -> bool:
    sizes = [file.stat().st_size for several in files for file in several]
    return min(map(len, files)) > 1 and sum(sizes) < SHORT * len(sizes)


def _has_examples(file: Path) -> bool:
    return file.stat().st_size > 0 and all(line.strip() for line in read_lines(file))


def read_layout(folder: Path, layout: Layout) -> Chunk:
    """The texts and labels of a folder, in the columns `text` and `label`."""
    import polars as pl

    if layout == "slots":
        return _read_slot_texts(folder)
    if layout == "class files":
        return _read_class_files(class_files(folder))
    files = [file for one in class_folders(folder) for file in class_texts(one)]
    texts = [read_whole(file).strip() for file in files]
    frame = pl.DataFrame({"text": texts, "label": [file.parent.name for file in files]})
    return Chunk(frame, np.ones(len(files), np.int64), tuple(files), tuple(range(len(files))))


def _read_class_files(files: Sequence[Path]) -> Chunk:
    import polars as pl

    texts: list[str] = []
    labels: list[str] = []
    numbers: list[int] = []
    firsts: list[int] = []
    for file in files:
        firsts.append(len(texts))
        for number, line in enumerate(read_lines(file), 1):
            if line.strip():
                texts.append(line.strip())
                labels.append(file.stem)
                numbers.append(number)
    return Chunk(
        pl.DataFrame({"text": texts, "label": labels}), np.array(numbers, np.int64), tuple(files), tuple(firsts)
    )


def _read_slot_texts(folder: Path) -> Chunk:
    import polars as pl

    texts = _read_column(folder / WORDS)
    columns = {"text": texts}
    if (folder / LABELS).is_file():
        columns[LABELS] = _read_column(folder / LABELS)
        _check_aligned(folder, LABELS, texts, columns[LABELS])
    return Chunk(pl.DataFrame(columns), np.arange(1, len(texts) + 1), (folder / WORDS,))


def read_slots(folder: Path, tags: bool = True) -> list[Sentence]:
    """The sentences of a folder with seq.in and seq.out: words, and a tag for each.

    Args:
        folder: The folder.
        tags: Whether tags are read; without them an empty line is a sentence without words.
    """
    texts = [text.split() for text in _read_column(folder / WORDS)]
    file = folder / WORDS
    if not tags:
        return [Sentence(tuple(words), (), line, file, 0) for line, words in enumerate(texts, 1)]
    labels = _read_labels(folder, texts)
    if not (folder / TAGS).is_file():
        raise DataError(f"{folder} has no {TAGS}, which has the tags of the words. Add it, or give another `task`.")
    tagged = [text.split() for text in _read_column(folder / TAGS)]
    _check_aligned(folder, TAGS, texts, tagged)
    return _pair_tags(file, texts, tagged, labels)


def _pair_tags(
    file: Path, texts: Sequence[Sequence[str]], tagged: Sequence[Sequence[str]], labels: Sequence[str]
) -> list[Sentence]:
    """Sentences of words and their tags; lines with more of one than of the other are refused, all at once."""
    problems, found = Problems(), []
    for line, (words, own) in enumerate(zip(texts, tagged, strict=True), 1):
        if len(words) != len(own):
            problems.add(f"{file}, line {line}: {len(words)} words, and {len(own)} tags in {TAGS}. Give each word one.")
        elif words:
            found.append(Sentence(tuple(words), tuple(own), line, file, 0, labels[line - 1]))
    problems.refuse()
    return found


def _read_labels(folder: Path, texts: Sequence[object]) -> list[str]:
    """The label of each line; empty where there is no such file."""
    if not (folder / LABELS).is_file():
        return [""] * len(texts)
    labels = _read_column(folder / LABELS)
    _check_aligned(folder, LABELS, texts, labels)
    return labels


def _read_column(file: Path) -> list[str]:
    lines = [line.strip() for line in read_lines(file)]
    if not any(lines):
        raise DataError(f"{file} is empty. Give a file with data.")
    return lines


def _check_aligned(folder: Path, name: str, texts: Sequence[object], other: Sequence[object]) -> None:
    if len(texts) != len(other):
        raise DataError(
            f"{folder}: {WORDS} has {len(texts):,} lines, and {name} has {len(other):,}. Give files that match."
        )
