"""Sources: what the paths that a user gives stand for, and the parts of data that come divided.

A path is a file, a folder that is a data set, or `file#split`: one of the splits that a JSON or .npz file has.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from unspool.data.arrays import find_array_splits
from unspool.data.formats import find_format
from unspool.data.layouts import LABELS, TAGS, WORDS, find_layout
from unspool.data.names import PARTS, are_shards, find_part, is_about
from unspool.data.problems import warn
from unspool.data.records import find_json_splits
from unspool.data.text import Source, expand, find_files, identity

#: The path of a part of the data, or the paths of its pieces.
Part = str | list[str]
#: Between a file and the name of one of its splits.
MARK = "#"


class Item(NamedTuple):
    """A file or a folder that is read as one, and the split of it that is meant; "" for all of it."""

    path: Path
    split: str = ""


def find_items(source: Source) -> list[Item]:
    """The files and folders that are meant, each once.

    Args:
        source: Files, patterns, folders, `file#split`, or a list of these. A folder that is a data set is one item; of
            any other folder, its files are meant. Files that make up such a data set stand for their folder: seq.in
            with seq.out or label beside it.

    Raises:
        DataError: There is no such file.

    Example:
        find_items("data_full.json#train")  # [Item(Path("data_full.json"), "train")]
    """
    several = _join_slots([source] if isinstance(source, str | Path) else list(source))
    found: dict[object, Item] = {}
    for one in several:
        for item in _find(one):
            found.setdefault((identity(item.path), item.split), item)
    return list(found.values()) or [Item(file) for file in find_files(several)]


def _join_slots(several: Sequence[str | Path]) -> list[str | Path]:
    """The same paths, with a folder in place of its seq.in, seq.out and label."""
    names: dict[Path, set[str]] = {}
    for path in map(expand, several):
        names.setdefault(path.parent, set()).add(path.name)
    folders = {folder for folder, own in names.items() if WORDS in own and own & {TAGS, LABELS}}
    return [_slot_folder(one, folders) or one for one in several]


def _slot_folder(one: str | Path, folders: Container[Path]) -> Path | None:
    path = expand(one)
    return path.parent if path.name in (WORDS, TAGS, LABELS) and path.parent in folders else None


def first_path(source: Source) -> Path:
    """The first file or data set that is meant, as the user named it."""
    path = _first(source)
    return path if find_parts(path) else _spell(find_items(source)[0])


def exists(source: Source) -> bool:
    """Whether the first path that is named exists."""
    return _first(source).exists()


def _first(source: Source) -> Path:
    one = source if isinstance(source, str | Path) else next(iter(source), "")
    return expand(one)


def _spell(item: Item) -> Path:
    return Path(f"{item.path}{MARK}{item.split}") if item.split else item.path


def _find(one: str | Path) -> list[Item]:
    path = expand(one)
    file, mark, split = str(path).rpartition(MARK)
    if mark and not path.exists() and Path(file).is_file():
        return [Item(Path(file), split)]
    return [Item(path)] if find_layout(path) is not None else [Item(file) for file in find_files(one)]


def find_parts(source: Source) -> dict[str, Part]:
    """Where the parts of a data set are that comes divided: "training", and "validation" and "test" if it has them.

    Such are folders with the subfolders, or files, train, valid and test; folders in which every file has one of these
    words in its name, where a part may be of several files that differ in a number (train-00000.parquet,
    train-00001.parquet); JSON files with these splits; and .npz files with x_train and x_test.

    Args:
        source: What the user gave.

    Returns:
        Part → path, or several; {} where the data is not divided.

    Example:
        find_parts("snips")  # {"training": "snips/train", "validation": "snips/valid", "test": "snips/test"}
    """
    path = _only(source)
    if path is None or not path.is_file():
        return find_folder_parts(source)
    return _name_splits(path, _find_splits(path))


def find_folder_parts(source: Source) -> dict[str, Part]:
    """Where the parts of a folder are, as `find_parts` has them; {} where it is not divided, or no folder.

    Example:
        find_folder_parts("wikitext-2")["training"]  # "wikitext-2/train.txt"
    """
    folder = _only(source)
    if folder is None or not folder.is_dir():
        return {}
    found = [one for one in sorted(folder.glob("*")) if not is_about(one)]
    return _name_parts({one.stem.lower(): str(one) for one in found}) or _find_worded_parts(found)


def list_paths(part: Part) -> tuple[str, ...]:
    """The paths of a part, one or several."""
    return (part,) if isinstance(part, str) else tuple(part)


def _only(source: Source) -> Path | None:
    """The path that is given; None if there are several, or none."""
    several = [source] if isinstance(source, str | Path) else list(source)
    return expand(several[0]) if len(several) == 1 else None


def _find_worded_parts(files: Sequence[Path]) -> dict[str, Part]:
    """Parts by a word in the names of files, if every file has one: a book may be about a train.

    Each part is one file, or several that are pieces of one.
    """
    named: dict[str | None, list[Path]] = {}
    for file in files:
        named.setdefault(find_part(file) if file.is_file() else None, []).append(file)
    if len(named) < 2 or None in named or "training" not in named or not all(map(are_shards, named.values())):
        return {}
    listed = {part: [str(file) for file in named[part]] for part in PARTS if part in named}
    return {part: files[0] if len(files) == 1 else files for part, files in listed.items()}


def _name_splits(file: Path, splits: Iterable[str]) -> dict[str, Part]:
    named = {split: f"{file}{MARK}{split}" for split in splits}
    found = _name_parts({split.lower(): path for split, path in named.items()})
    left = [split for split, path in named.items() if path not in found.values()]
    if found and left:
        warn(f"{file} also has {', '.join(left)}, which are not used. To use one, name it: {named[left[0]]}.")
    return found


def _name_parts(named: dict[str, str]) -> dict[str, Part]:
    found = {part: next((named[name] for name in names if name in named), "") for part, names in PARTS.items()}
    return {part: path for part, path in found.items() if path} if found["training"] else {}


def _find_splits(file: Path) -> list[str]:
    if file.suffix.lower() == ".npz":
        return find_array_splits(file)
    return find_json_splits(file) if find_format(file) == "json" else []


def held_out(source: Source) -> Source:
    """Of data that comes divided, the test part, or else the validation part; other data as it is."""
    parts = find_parts(source)
    return parts.get("test") or parts.get("validation") or source


def training_part(source: Source) -> Source:
    """Of data that comes divided, the training part; other data as it is."""
    return find_parts(source).get("training") or source


def list_all_files(source: Source) -> Iterable[Path]:
    """Every file that data may be read from, in a fixed order."""
    parts = find_parts(source)
    items = [one for part in parts.values() for one in find_items(part)] or find_items(source)
    for path in dict.fromkeys(item.path for item in items):
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if file.is_file() and not is_about(file))
        else:
            yield path
