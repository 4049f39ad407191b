"""Digits pixel by pixel: scikit-learn's own images, and MNIST's format written by hand."""

from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from unspool.errors import DataError, MissingPackageError, UnknownNameError
from unspool.lab.data import digits


def write_mnist(folder: Path, counts: tuple[int, int] = (5, 3)) -> tuple[np.ndarray, np.ndarray]:
    """MNIST's four files with random images of 28×28; two of them compressed."""
    chance = np.random.default_rng(0)
    images, labels = chance.integers(0, 256, (8, 28, 28), np.uint8), chance.integers(0, 10, 8, np.uint8)
    starts = (0, counts[0])
    for name, start, count in zip(("train", "t10k"), starts, counts, strict=True):
        some = slice(start, start + count)
        pixels = struct.pack(">IIII", 2051, count, 28, 28) + images[some].tobytes()
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(pixels))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels[some].tobytes())
    return images, labels


def test_pixels_come_row_by_row() -> None:
    x, y = digits()
    images = load_digits().images
    assert x.dtype == np.float32
    assert y.dtype == np.int64
    np.testing.assert_allclose(x[:, 7, 0].reshape(8, 8) * 16, images[7])
    np.testing.assert_array_equal(y, load_digits().target)


def test_one_order_for_all_images() -> None:
    x, y = digits(permuted=True, seed=4)
    plain, same = digits()
    order = np.random.default_rng(4).permutation(64)
    np.testing.assert_array_equal(x, plain[order])
    np.testing.assert_array_equal(y, same)
    assert not np.array_equal(x, digits(permuted=True, seed=5)[0])


def test_no_image_is_in_both_parts() -> None:
    parts = {part: digits(part)[0] for part in ("train", "test", "all")}
    assert parts["train"].shape[1] + parts["test"].shape[1] == parts["all"].shape[1] == 1797
    joined = np.concatenate((parts["train"], parts["test"]), 1)
    assert sorted(map(tuple, joined[..., 0].T)) == sorted(map(tuple, parts["all"][..., 0].T))


def test_mnist_from_a_folder(tmp_path: Path) -> None:
    images, labels = write_mnist(tmp_path)
    x, y = digits("test", path=tmp_path)
    assert x.shape == (784, 3, 1)
    np.testing.assert_allclose(x[:, 1, 0].reshape(28, 28) * 255, images[6], atol=1e-4)
    np.testing.assert_array_equal(y, labels[5:])
    assert digits("all", path=str(tmp_path))[0].shape == (784, 8, 1)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="train-images-idx3-ubyte does not exist"):
        digits("train", path=tmp_path)
    write_mnist(tmp_path)
    labels = tmp_path / "t10k-labels-idx1-ubyte"
    labels.write_bytes(labels.read_bytes()[:-1])
    with pytest.raises(DataError, match="is incomplete"):
        digits("test", path=tmp_path)
    labels.write_bytes(b"")
    with pytest.raises(DataError, match="not an IDX file"):
        digits("test", path=tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"\x1f\x8b broken")
    with pytest.raises(DataError, match="cannot be read"):
        digits("train", path=tmp_path)


def test_images_without_labels_are_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, 2) + b"\1\2")
    with pytest.raises(DataError, match="3 images and 2 labels"):
        digits("test", path=tmp_path)


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="train"):
        digits("training")


def test_without_scikit_learn_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingPackageError, match=r"unspool\.lab\.data\.digits needs sklearn: pip install"):
        digits()
