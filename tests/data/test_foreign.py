"""Archives, workbooks, PDF and images are named as what they are, with the remedy, and never learned as text."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.calling import call

from unspool.data.encodings import find_encoding
from unspool.data.formats import find_format
from unspool.errors import DataError

ZIP = b"PK\x03\x04junk"
FOREIGN = {
    "a compressed file. Unpack it": {"x.zip": ZIP, "unnamed": ZIP, "x.csv.gz": b"\x1f\x8bjunk", "x.gz": b"plain"},
    "a workbook of Excel. Save its table as CSV": {"x.xlsx": ZIP},
    "a PDF. Extract its text": {"x.pdf": b"%PDF-1.7 junk"},
    "an image.": {"x.PNG": b"\x89PNG junk", "photo": b"\xff\xd8\xff junk"},
}


@pytest.mark.parametrize(
    ("name", "start", "said"), [(*file, said) for said, files in FOREIGN.items() for file in files.items()]
)
def test_what_is_no_text_is_named(name: str, start: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(start * 20)
    with pytest.raises(DataError, match=said) as caught:
        find_format(file)
    assert "Known formats: CSV" in str(caught.value)


def test_a_table_by_its_name_that_is_an_archive_and_text_that_only_looks_like_one(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(ZIP)
    with pytest.raises(DataError, match="Unpack it"):
        find_encoding(tmp_path / "x.csv")
    (tmp_path / "x.txt").write_text("PK is a abbreviation. GIF too. BZ. %PDF")
    assert find_encoding(tmp_path / "x.txt").name == "utf-8"


@pytest.mark.parametrize("task", [(), ("--task", "lm")])
def test_an_archive_is_never_a_text_to_learn(
    task: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04" + b"junk " * 500)
    assert call("train", tmp_path / "x.zip", *task, "--steps", 3, "--out", tmp_path / "run") == 2
    assert "is a compressed file. Unpack it" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()
