"""Documents of run folders: read where they are whole and of a sensible size, refused at once where they are not."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from tests.learning import odd_files

from unspool.errors import DataError
from unspool.storage import documents
from unspool.storage.documents import read_json, read_sealed, read_toml, seal

REMEDY = "Restore it"


def test_a_document_is_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('task = "lm"\n[model]\nhidden = 3\n', encoding="utf-8")
    assert read_toml(tmp_path / "a.toml", REMEDY) == {"task": "lm", "model": {"hidden": 3}}
    (tmp_path / "a.json").write_text('{"é": [1, null]}', encoding="utf-8")
    assert read_json(tmp_path / "a.json", REMEDY) == {"é": [1, None]}


@pytest.mark.parametrize("kind", odd_files.KINDS)
def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "document"
    reads = [partial(read, remedy=REMEDY) for read in (read_toml, read_json, read_sealed)]
    odd_files.check_refused(path, kind, reads, rf"{path} cannot be read: .*\. Restore it\.")


def test_a_link_to_a_document_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "a.json")
    assert read_json(tmp_path / "link", REMEDY) == {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 100_000, "it is nested too deeply"),
        (b"[]", "it has no entries by name"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "cannot be read"),
        (b"{", "Expecting property name"),
        (b"\xff\xfe", "codec can't decode"),
    ],
)
def test_json_that_is_none_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(DataError, match=said):
        read_json(tmp_path / "a.json", REMEDY)


def test_toml_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("a = " + "[" * 100_000, encoding="utf-8")
    with pytest.raises(DataError, match="it is nested too deeply"):
        read_toml(tmp_path / "a.toml", REMEDY)


def test_no_more_is_read_than_a_document_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "LONGEST_CONFIG", 100)
    path = tmp_path / "a.toml"
    path.write_bytes(b"a = 1\n#" + b"x" * 93)
    assert read_toml(path, REMEDY) == {"a": 1}
    path.write_bytes(b"a = 1\n#" + b"x" * 94)
    with pytest.raises(DataError, match="it has more than 100 bytes"):
        read_toml(path, REMEDY)


def test_a_sealed_document_is_refused_when_it_was_changed_or_its_seal_is_missing(tmp_path: Path) -> None:
    path, document = tmp_path / "a.json", {"labels": ["no", "yes"], "n": 3}
    path.write_text(json.dumps(seal(document), indent=3), encoding="utf-8")
    assert read_sealed(path, REMEDY) == document
    path.write_text(json.dumps(seal(document) | {"labels": ["yes", "no"]}), encoding="utf-8")
    with pytest.raises(DataError, match="it was changed since the run wrote it. Restore it"):
        read_sealed(path, REMEDY)
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(DataError, match="it has no 'digest'. Restore it"):
        read_sealed(path, REMEDY)
