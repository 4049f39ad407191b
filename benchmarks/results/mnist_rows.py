"""How well are MNIST's digits read, row by row, by a recurrent network behind scikit-learn's interface?

    python benchmarks/results/mnist_rows.py FOLDER

The folder has the four idx files, packed (.gz) or not. A digit is 28 steps of 28 numbers; the model is chosen on a
tenth of the training data, and the test data is read once, at the end.
"""

from __future__ import annotations

import argparse
import gzip
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.estimators import SequenceClassifier


def read_idx(folder: Path, name: str) -> NDArray[Any]:
    """The array of an idx file: two zeros, the type (8: bytes), the number of axes, their lengths, the entries."""
    found = [path for path in (folder / name, folder / f"{name}.gz") if path.exists()]
    if not found:
        sys.exit(f"{folder / name} is not there, nor is {name}.gz. Give the folder with MNIST's four files.")
    content = found[0].read_bytes()
    content = gzip.decompress(content) if found[0].suffix == ".gz" else content
    axes = content[3]
    shape = np.frombuffer(content, ">i4", axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder", type=Path)
    options.add_argument("--cell", default="lstm")
    options.add_argument("--hidden", type=int, default=96)
    options.add_argument("--epochs", type=float, default=8)
    options.add_argument("--dropout", type=float, default=0.1)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    X, y = (read_idx(asked.folder, f"train-{part}-ubyte") for part in ("images-idx3", "labels-idx1"))
    new_X, new_y = (read_idx(asked.folder, f"t10k-{part}-ubyte") for part in ("images-idx3", "labels-idx1"))
    model = SequenceClassifier(
        cell=asked.cell,
        hidden=asked.hidden,
        dropout=asked.dropout,
        epochs=asked.epochs,
        batch_size=128,
        lr=4e-3,
        random_state=asked.seed,
        verbose=True,
    )
    begun = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - begun
    accuracy = model.score(new_X, new_y)
    print(f"`python {shlex.join(sys.argv)}` (seed {asked.seed}): test accuracy {accuracy:.2%} in {seconds:.0f} s")


if __name__ == "__main__":
    main()
