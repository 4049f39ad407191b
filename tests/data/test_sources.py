"""Sources: files, folders and splits that a path stands for, and the parts of data that comes divided."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from unspool.data.sources import (
    Item,
    exists,
    find_items,
    find_parts,
    first_path,
    held_out,
    list_all_files,
    training_part,
)
from unspool.data.tables import read_table
from unspool.data.text import Source
from unspool.errors import DataError, DataWarning


def write(path: Path, text: str = "a,b\n1x,2\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def splits(path: Path, *names: str) -> Path:
    return write(path, json.dumps({name: [["text", "label"]] for name in names}))


def test_items(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.csv"), write(tmp_path / "b#1.csv")
    classes = [write(tmp_path / "classes" / name, "x\n") for name in ("one.txt", "two.txt")]
    full = splits(tmp_path / "full.json", "train", "test")
    assert find_items([a, b, a]) == [Item(a), Item(b)]
    assert find_items(f"{full}#test") == [Item(full, "test")]
    assert find_items([f"{full}#test", f"{full}#train"]) == [Item(full, "test"), Item(full, "train")]
    assert find_items(tmp_path / "classes") == [Item(tmp_path / "classes")]
    assert find_items(tmp_path / "*.csv") == [Item(a), Item(b)]
    assert list(list_all_files(tmp_path / "classes")) == classes
    missing: Source
    for missing in ([], tmp_path / "none.csv", f"{tmp_path}/none.json#train"):
        with pytest.raises(DataError, match="no file"):
            find_items(missing)


def test_parts_of_folders(tmp_path: Path) -> None:
    for part in ("train", "dev", "test"):
        write(tmp_path / "snips" / part / "seq.in", "a\n")
        write(tmp_path / "files" / f"{part.title()}.conll", "a O\n")
    write(tmp_path / "snips" / "SOURCE.txt", "here\n")
    folder = tmp_path / "snips"
    found = {"training": f"{folder}/train", "validation": f"{folder}/dev", "test": f"{folder}/test"}
    assert find_parts(folder) == find_parts([str(folder)]) == found
    assert find_parts(tmp_path / "files")["validation"] == f"{tmp_path}/files/Dev.conll"
    assert (held_out(folder), training_part(folder)) == (found["test"], found["training"])
    assert find_parts([folder, folder]) == find_parts(tmp_path) == find_parts(tmp_path / "snips" / "train") == {}


def test_files_of_a_data_set_stand_for_their_folder(tmp_path: Path) -> None:
    words, tags, labels = (write(tmp_path / "slots" / name, "a\n") for name in ("seq.in", "seq.out", "label"))
    table = write(tmp_path / "a.csv")
    folder = Item(tmp_path / "slots")
    assert find_items([words, tags, labels]) == find_items([words, labels]) == [folder]
    assert find_items([table, labels, words]) == [Item(table), folder]
    assert find_items([tags, labels]) == [Item(tags), Item(labels)]
    assert find_items(words) == [Item(words)]


def test_parts_by_a_word_in_every_name(tmp_path: Path) -> None:
    folder = tmp_path / "wnut17"
    names = ["emerging.dev.conll", "emerging.test.annotated", "wnut17train.conll"]
    validation, test, training = (str(write(folder / name, "a O\n")) for name in names)
    write(folder / "README.md", "the training data\n")
    assert find_parts(folder) == {"training": training, "validation": validation, "test": test}
    write(folder / "other.conll", "a O\n")
    assert find_parts(folder) == {}
    books = [write(tmp_path / "books" / name, "x\n") for name in ("night_train.txt", "last_train.txt", "test.txt")]
    assert find_parts(tmp_path / "books") == {}
    books[0].unlink()
    books[2].unlink()
    assert find_parts(tmp_path / "books") == {}


def test_a_part_of_several_pieces(tmp_path: Path) -> None:
    pieces = [str(write(tmp_path / "data" / f"train-0000{n}-of-00003.csv")) for n in range(3)]
    assert find_parts(tmp_path / "data") == {}  # all of it is one
    assert [str(item.path) for item in find_items(tmp_path / "data")] == pieces
    test = str(write(tmp_path / "data" / "test-00000-of-00001.csv"))
    assert find_parts(tmp_path / "data") == {"training": pieces, "test": test}
    assert training_part(tmp_path / "data") == pieces
    assert [str(file) for file in list_all_files(tmp_path / "data")] == [*pieces, test]
    assert len(read_table(training_part(tmp_path / "data"))) == 3
    write(tmp_path / "data" / "train-clean.csv")
    assert find_parts(tmp_path / "data") == {}  # it is no piece of the others


def test_parts_of_files(tmp_path: Path) -> None:
    full = splits(tmp_path / "full.json", "train", "val")
    assert find_parts(full) == {"training": f"{full}#train", "validation": f"{full}#val"}
    assert held_out(full) == f"{full}#val"
    assert list(list_all_files(full)) == [full]
    np.savez(tmp_path / "a.npz", x_train=np.ones((2, 3)), y_train=[0, 1], x_test=np.ones((1, 3)), y_test=[0])
    assert find_parts(tmp_path / "a.npz") == {"training": f"{tmp_path}/a.npz#train", "test": f"{tmp_path}/a.npz#test"}
    table = write(tmp_path / "a.csv")
    assert find_parts(table) == {}
    assert held_out(table) == training_part(table) == table


def test_splits_that_are_not_used_are_said(tmp_path: Path) -> None:
    full = splits(tmp_path / "full.json", "oos_train", "train", "test")
    with pytest.warns(DataWarning, match=r"also has oos_train, which are not used. .*full\.json#oos_train"):
        assert find_parts(full) == {"training": f"{full}#train", "test": f"{full}#test"}


@pytest.mark.parametrize("name", ["x" * 300, "a/" * 5000, "x" * 300 + "*.txt", "x" * 300 + "#train"])
def test_a_text_in_place_of_a_path_is_refused(name: str) -> None:
    for find in (find_items, find_parts, exists, first_path):
        with pytest.raises(DataError, match=r"^'.{4,20}\.\.\..* cannot be read: File name too long. Check the path"):
            find(name)
