"""A small run that classifies texts, and partitions of new texts for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unspool.runs.train import train

WORDS = ("red", "green", "blue", "hot", "cold")
TINY: dict[str, Any] = {"engine": "torch", "hidden": 4, "steps": 3, "eval_every": 3, "batch_size": 4}


def make_run(folder: Path, seed: int = 0) -> Path:
    """A run that tells three labels apart, badly."""
    lines = "".join(f"{text},{'xyz'[number % 3]}\n" for number, text in enumerate(make_texts(24, 0)))
    data = folder / "training.csv"
    data.write_text("text,label\n" + lines, encoding="utf-8")
    run = folder / f"run-{seed}"
    train(data, out=run, task="classify", seed=seed, **TINY)
    return run


def make_texts(count: int, seed: int) -> list[str]:
    """Texts of one to four words."""
    chance = np.random.default_rng(seed)
    return [" ".join(WORDS[one] for one in chance.integers(0, 5, 1 + number % 4)) for number in range(count)]


def write_partitions(folder: Path, count: int, rows: int) -> Path:
    """Parquet partitions with a number and a text per row."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        frame = pl.DataFrame({"number": range(number * rows, (number + 1) * rows), "text": make_texts(rows, number)})
        frame.write_parquet(folder / f"part-{number:03}.parquet")
    return folder


def read_all(folder: Path) -> dict[str, bytes]:
    """The bytes of every visible file below a folder, by name."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    names = {path.relative_to(folder).as_posix(): path for path in files}
    return {name: path.read_bytes() for name, path in names.items() if not name.startswith(".unspool")}
