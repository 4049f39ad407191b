"""Files of tensors are read as NumPy arrays with the bits that torch wrote; damaged ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.learning import odd_files
from tests.learning.test_files import FACTS, TENSORS

from unspool.errors import DataError
from unspool.learning.files import write_tensors
from unspool.storage.tensors import read_arrays, read_header, sum_arrays

READABLE = {name: tensor for name, tensor in TENSORS.items() if tensor.dtype != torch.bfloat16}


def test_arrays_are_the_tensors_bit_for_bit(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", {**READABLE, "flag": torch.tensor([True, False])}, FACTS)
    arrays, facts = read_arrays(tmp_path / "file")
    assert facts == FACTS
    assert arrays.keys() == {*READABLE, "flag"}
    for name, tensor in READABLE.items():
        assert arrays[name].dtype == tensor.numpy().dtype
        assert arrays[name].shape == tuple(tensor.shape)
        assert arrays[name].tobytes() == tensor.contiguous().numpy().tobytes()
    assert read_header(tmp_path / "file").facts["crc32"] == sum_arrays(arrays, facts)


@pytest.mark.parametrize("taught", [False, True], ids=["plain", "taught"])
def test_numbers_that_numpy_does_not_have_are_refused(taught: bool, tmp_path: Path) -> None:
    if taught:  # as Keras does
        pytest.importorskip("ml_dtypes")
    write_tensors(tmp_path / "file", TENSORS, FACTS)
    with pytest.raises(DataError, match="cannot be read"):
        read_arrays(tmp_path / "file")


def test_every_byte_counts(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_tensors(path, READABLE, FACTS)
    content = path.read_bytes()
    arrays, _ = read_arrays(path)
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 4
        path.write_bytes(bytes(damaged))
        try:
            found, facts = read_arrays(path)
        except DataError:
            continue
        same = {name: array.tobytes() for name, array in found.items()}
        assert same == {name: array.tobytes() for name, array in arrays.items()}
        assert facts == FACTS


@pytest.mark.parametrize("kind", odd_files.KINDS)
def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    odd_files.check_refused(tmp_path / "file", kind, [read_arrays, read_header], "cannot be read")
