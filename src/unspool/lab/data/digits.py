"""Handwritten digits read pixel by pixel: scikit-learn's 8×8 images, or MNIST from a folder."""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unspool.errors import DataError, MissingPackageError, UnknownNameError

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]

PARTS = ("train", "test", "all")
#: MNIST's files of images and of labels; either may end in `.gz`.
MNIST = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


def digits(
    part: str = "all", permuted: bool = False, seed: int = 0, path: str | Path | None = None
) -> tuple[Floats, Integers]:
    """Images of digits as sequences of pixels, row by row or in one random order for all images.

    Args:
        part: "train", "test" or "all". Every fourth of scikit-learn's images is for tests; MNIST has its own division.
        permuted: whether the pixels come in a random order: permuted sequential digits.
        seed: of that order.
        path: a folder with MNIST's four files, plain or `.gz`; by default scikit-learn's 1797 small images, which need
            `unspool[sklearn]`.

    Returns:
        x of shape (pixels, count, 1), from 0 to 1; y of shape (count,), the digits.

    Raises:
        MissingPackageError: scikit-learn is not installed.
        DataError: the folder does not have MNIST's files.

    Example:
        >>> x, y = digits("train", permuted=True)
        >>> x.shape, y.shape
        ((64, 1347, 1), (1347,))
    """
    if part not in PARTS:
        raise UnknownNameError.among("part", part, PARTS)
    pixels, y = read_small(part) if path is None else read_mnist(part, Path(path))
    order = np.random.default_rng(seed).permutation(pixels.shape[1]) if permuted else np.arange(pixels.shape[1])
    x: Floats = np.ascontiguousarray(pixels[:, order].T)[..., None]
    return x, y


def read_small(part: str) -> tuple[Floats, Integers]:
    """scikit-learn's images (count, 64) and labels."""
    with MissingPackageError.explaining("unspool.lab.data.digits"):
        from sklearn.datasets import load_digits
    pixels, y = load_digits(return_X_y=True)
    tested = np.arange(len(y)) % 4 == 3
    chosen = {"train": ~tested, "test": tested, "all": np.ones(len(y), bool)}[part]
    scaled: Floats = (pixels[chosen] / 16).astype(np.float32)
    return scaled, y[chosen].astype(np.int64)


def read_mnist(part: str, folder: Path) -> tuple[Floats, Integers]:
    """MNIST's images (count, 784) and labels from a folder."""
    parts = list(MNIST) if part == "all" else [part]
    images, labels = (np.concatenate([read_idx(folder / MNIST[one][place]) for one in parts]) for place in range(2))
    if len(images) != len(labels):
        raise DataError(f"{folder} has {len(images)} images and {len(labels)} labels. Download MNIST again.")
    scaled: Floats = images.reshape(len(images), -1).astype(np.float32) / np.float32(255)
    return scaled, labels.astype(np.int64)


def read_idx(file: Path) -> Bytes:
    """An array from a file in IDX format, or from the same file with `.gz` behind its name."""
    packed = file.with_name(file.name + ".gz")
    try:
        content = file.read_bytes() if file.is_file() else gzip.decompress(packed.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{file} does not exist, nor does {packed.name}. Give the folder with MNIST's files.") from None
    except (OSError, EOFError) as error:
        raise DataError(f"{packed} cannot be read: {error}. Download it again.") from error
    # two zero bytes, 8 for unsigned bytes, the number of axes; then each axis as four bytes
    axes = content[3] if content[:3] == b"\0\0\x08" and len(content) > 3 else 0
    head = 4 + 4 * axes
    shape = struct.unpack(f">{axes}I", content[4:head]) if axes and len(content) >= head else ()
    if not shape or math.prod(shape) != len(content) - head:
        raise DataError(f"{file} is not an IDX file of bytes, or is incomplete. Download it again.")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)
