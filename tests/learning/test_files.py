"""Files are whole or not there, hold what was put into them bit for bit, and say when they are damaged."""

from __future__ import annotations

import errno
import math
import os
import stat
from pathlib import Path

import pytest
import safetensors.torch
import torch
from tests.learning import odd_files
from tests.learning.watched_disk import fail, watched

from unspool.errors import DataError, StorageError
from unspool.learning.files import forms_of, read_plain_tensors, read_tensors, write_tensors
from unspool.storage.files import find_temporaries, make_folder, storing, write_file
from unspool.storage.tensors import Form, find_mismatch, read_header

TENSORS = {
    "weight": torch.tensor([[1.5, -0.0, math.nan], [math.inf, 1e-45, 3.0]]),
    "transposed": torch.arange(6.0).reshape(2, 3).t(),
    "half": torch.tensor([0.1, 0.2], dtype=torch.bfloat16),
    "count": torch.tensor(7),
    "state": torch.arange(5, dtype=torch.uint8),
    "nothing": torch.zeros(0, 3),
}
FACTS = {"step": 3, "loss": 0.1 + 0.2, "words": "Füße\n", "nested": {"list": [1, None, math.inf]}}


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"first", b"", b"second" * 100_000):
        write_file(path, content)
        assert path.read_bytes() == content
        assert list(tmp_path.iterdir()) == [path]


def test_who_may_read_a_file_is_for_the_umask_to_say(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_file(tmp_path / "file", b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_write_that_fails_leaves_the_old_file_or_the_new_one_and_nothing_else(tmp_path: Path, at: int) -> None:
    path = tmp_path / "file"
    write_file(path, b"old content")
    with (
        watched(tmp_path, at, fail) as asked,
        pytest.raises(StorageError, match=f"{path}.*No space left.*`resume=True`"),
    ):
        write_file(path, b"new content")
    assert asked == ["write", "fsync", "replace", "fsync"][:at]
    assert path.read_bytes() == (b"new content" if at == 4 else b"old content")
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_crash_leaves_is_found_and_nothing_else(tmp_path: Path) -> None:
    left = {".config.toml-0123abcd", ".step-000000001.safetensors-ffffffff"}
    others = {"config.toml", ".gitignore", ".hidden-file", ".notes-0123abcz", "notes-0123abcd", ".notes-0123abcd-more"}
    for name in left | others:
        (tmp_path / name).touch()
    assert {path.name for path in find_temporaries(tmp_path)} == left
    assert [path.name for path in find_temporaries(tmp_path, "config.toml")] == [".config.toml-0123abcd"]
    assert find_temporaries(tmp_path / "missing") == []


def test_a_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file/c cannot be written: Not a directory.*Give a folder as `out`"):
        make_folder(tmp_path / "file" / "c")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EDQUOT, "Make room, then resume with `resume=True`."),
        (errno.EACCES, "Allow writing there, or give another `out`."),
        (errno.EROFS, "Allow writing there, or give another `out`."),
        (errno.ENAMETOOLONG, "Give another `out`."),
        (errno.EIO, "Check the disk, then resume with `resume=True`."),
    ],
)
def test_the_remedy_fits_what_the_system_says(number: int, remedy: str) -> None:
    with pytest.raises(StorageError) as caught, storing(Path("file")):
        raise OSError(number, os.strerror(number))
    said = f"file cannot be written: {os.strerror(number)}. What was there before is untouched. {remedy}"
    assert str(caught.value) == said


def test_an_error_of_storage_is_not_wrapped_twice(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="^inner cannot"), storing(tmp_path / "outer"), storing(Path("inner")):
        fail()


def test_tensors_and_facts_come_back_bit_for_bit(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", TENSORS, FACTS)
    tensors, facts = read_tensors(tmp_path / "file")
    assert facts == FACTS
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name].reshape(-1).view(torch.uint8), tensor.reshape(-1).view(torch.uint8))
        assert tensors[name].shape == tensor.shape


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_tensors(tmp_path / name, TENSORS, FACTS)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_tensors_that_share_memory_are_kept_each(tmp_path: Path) -> None:
    tied = torch.nn.Parameter(torch.randn(3, 2))
    write_tensors(tmp_path / "file", {"embedding": tied, "read_out": tied}, {})
    tensors, _ = read_tensors(tmp_path / "file")
    assert torch.equal(tensors["embedding"], tied)
    assert torch.equal(tensors["read_out"], tied)


def test_every_damage_is_noticed(tmp_path: Path) -> None:
    path, weight, facts = tmp_path / "file", torch.arange(8.0), {"step": 12, "logs": {"a": 5}}
    write_tensors(path, {"weight": weight, "count": torch.tensor(3)}, facts)
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match="damaged or missing"):
            read_tensors(path)
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DataError):
            read_tensors(path)


@pytest.mark.parametrize("metadata", [None, {"unspool": '{"step": 3}'}, {"unspool": "[]"}, {"unspool": "[" * 100_000}])
def test_a_file_of_others_has_no_checksum_and_is_read_by_its_tensors_alone(
    tmp_path: Path, metadata: dict[str, str] | None
) -> None:
    safetensors.torch.save_file({"weight": torch.ones(2)}, tmp_path / "file", metadata)
    with pytest.raises(DataError, match="file cannot be read: .*damaged"):
        read_tensors(tmp_path / "file")
    assert torch.equal(read_plain_tensors(tmp_path / "file")["weight"], torch.ones(2))


def test_a_header_tells_forms_and_facts_and_reads_no_tensor(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", TENSORS, FACTS)
    header = read_header(tmp_path / "file")
    assert header.forms == forms_of(TENSORS)
    assert header.forms["half"] == Form("BF16", (2,))
    assert header.facts.items() >= FACTS.items()
    with (tmp_path / "file").open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"\xff")  # of the last tensor
    assert read_header(tmp_path / "file") == header


@pytest.mark.parametrize("kind", odd_files.KINDS)
def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    odd_files.check_refused(path, kind, (read_tensors, read_header, read_plain_tensors), f"{path} cannot be read")


def test_tensors_of_another_type_or_shape_are_told_apart() -> None:
    single, double, wide = (forms_of({"w": torch.ones(*shape)}) for shape in ([2], [2], [3]))
    double = forms_of({"w": torch.ones(2, dtype=torch.float64)})
    assert find_mismatch(single, single) is None
    assert find_mismatch(single, double) == "w is of type F64 in the file and of type F32 in the model"
    assert find_mismatch(single, wide) == "w is of shape (3,) in the file and of shape (2,) in the model"
    assert find_mismatch(single, {}) == "w is missing in the file and of shape (2,) in the model"


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no-such.*missing"):
        read_tensors(tmp_path / "no-such")
