"""Folders: classes by file and by subfolder, words beside tags and labels, and folders that are only books."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unspool.data.layouts import find_layout, looks_labelled, read_slots
from unspool.data.sentences import read_sentences
from unspool.data.tables import read_table
from unspool.data.tagged import Sentence
from unspool.errors import DataError

BOOK = "Call me Ishmael. Some years ago\nnever mind how long\n\nIt is a way I have\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_per_class(tmp_path: Path) -> None:
    for name, text in {
        "Arabic.txt": "Khoury\nNahas\n",
        "Czech.txt": "Abl\nAdsit\nAjdrna\n",
        "LICENSE": "MIT\n\nfree\n",
        "SOURCE.txt": "some repo\n",
        "README.md": "# Names\n",
        ".hidden.txt": "x\n",
    }.items():
        write(tmp_path / name, text)
    assert find_layout(tmp_path) == "class files"
    assert looks_labelled(tmp_path)
    table = read_table(tmp_path)
    assert table.text("text") == ["Khoury", "Nahas", "Abl", "Adsit", "Ajdrna"]
    assert table.text("label") == ["Arabic"] * 2 + ["Czech"] * 3
    assert table.place(4) == f"{tmp_path / 'Czech.txt'}, line 3"


def test_a_folder_per_class(tmp_path: Path) -> None:
    for name in ("pos/1_9", "pos/2_8", "neg/1_2", "neg/2_1", "unsup/1_0", "unsup/2_0"):
        write(tmp_path / f"{name}.txt", f"a film\n{name}\n")
    write(tmp_path / "urls_pos.txt", "http\n")
    write(tmp_path / "pos" / "README.txt", "films that are liked\n")
    write(tmp_path / "notes" / "LICENSE.txt", "free\n")
    assert find_layout(tmp_path) == "class folders"
    assert looks_labelled(tmp_path)
    table = read_table(tmp_path)
    assert table.text("label") == ["neg", "neg", "pos", "pos"]
    assert table.text("text")[0] == "a film\nneg/1_2"
    assert table.place(2) == f"{tmp_path / 'pos' / '1_9.txt'}, line 1"


def test_books_are_no_classes(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", BOOK)
    assert find_layout(tmp_path) is None  # one file has no classes
    write(tmp_path / "b.txt", BOOK)
    assert not looks_labelled(tmp_path)
    for name in ("melville/moby", "melville/typee", "poe/raven", "poe/gold"):
        write(tmp_path / "more" / f"{name}.txt", BOOK * 2000)
    assert not looks_labelled(tmp_path / "more")
    for part in ("train", "valid", "test"):
        write(tmp_path / "parts" / f"{part}.txt", "a b c\n")
    assert find_layout(tmp_path / "parts") is None


def test_pieces_of_a_text_are_no_classes(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"part-0000{n}.txt").write_text("one line\nanother\n", encoding="utf-8")
    assert find_layout(tmp_path) is None
    assert not looks_labelled(tmp_path)


def test_words_tags_and_labels_side_by_side(tmp_path: Path) -> None:
    write(tmp_path / "seq.in", "play jazz \nfly to  new york\n")
    write(tmp_path / "seq.out", "O B-genre\nO O B-city I-city \n")
    write(tmp_path / "label", "PlayMusic\nBookFlight\n")
    assert find_layout(tmp_path) == "slots"
    table = read_table(tmp_path)
    assert (table.text("text"), table.text("label")) == (["play jazz", "fly to  new york"], ["PlayMusic", "BookFlight"])
    words = tmp_path / "seq.in"
    expected = [
        Sentence(("play", "jazz"), ("O", "B-genre"), 1, words, 0, "PlayMusic"),
        Sentence(("fly", "to", "new", "york"), ("O", "O", "B-city", "I-city"), 2, words, 0, "BookFlight"),
    ]
    assert read_slots(tmp_path) == read_sentences(tmp_path) == expected
    assert expected[1].place(3) == f"{words}, line 2"
    assert [one.tags for one in read_sentences(tmp_path, tags=False)] == [(), ()]


def test_an_empty_line_is_a_sentence_only_where_each_line_is_answered(tmp_path: Path) -> None:
    write(tmp_path / "seq.in", "play jazz\n\nstop\n")
    write(tmp_path / "seq.out", "O B-genre\n\nO\n")
    assert [(one.words, one.line) for one in read_slots(tmp_path, tags=False)] == [
        (("play", "jazz"), 1),
        ((), 2),
        (("stop",), 3),
    ]
    assert [one.words for one in read_slots(tmp_path)] == [("play", "jazz"), ("stop",)]


def test_files_that_do_not_match(tmp_path: Path) -> None:
    write(tmp_path / "seq.in", "play jazz\nfly to york\nstop\n")
    write(tmp_path / "seq.out", "O\nO B-city\nO\n")
    write(tmp_path / "label", "PlayMusic\nBookFlight\nStop\n")
    with pytest.raises(DataError, match=r"2 problems:\n.*line 1: 2 words, and 1 tags.*\n.*line 2: 3 words"):
        read_slots(tmp_path)
    write(tmp_path / "label", "PlayMusic\n")
    for read in (read_slots, read_table):
        with pytest.raises(DataError, match=r"seq\.in has 3 lines, and label has 1"):
            read(tmp_path)
    (tmp_path / "seq.out").unlink()
    (tmp_path / "label").unlink()
    with pytest.raises(DataError, match=r"has no seq\.out"):
        read_slots(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes")
def test_pipes_and_devices_among_texts_are_left_out(tmp_path: Path) -> None:
    for label in "ab":
        for number in range(3):
            write(tmp_path / label / f"{number}.txt", f"{label} {number}")
    os.mkfifo(tmp_path / "b" / "pipe.txt")
    (tmp_path / "b" / "device.txt").symlink_to("/dev/zero")
    (tmp_path / "b" / "folder.txt").mkdir()
    (tmp_path / "c").mkdir()
    os.mkfifo(tmp_path / "c" / "pipe.txt")
    assert looks_labelled(tmp_path)
    table = read_table(tmp_path)
    assert table.text("text") == ["a 0", "a 1", "a 2", "b 0", "b 1", "b 2"]
    assert table.text("label") == [*"aaabbb"]
