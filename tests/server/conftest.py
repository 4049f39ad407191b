"""Runs that servers of these tests serve, trained once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runs.small_folders import FILES, OPTIONS, OWN, write_data
from tests.runs.tiny_run import TinyRun

from unspool import Cell
from unspool.learning.files import read_tensors, write_tensors
from unspool.runs.train import train
from unspool.storage.documents import read_sealed, seal

PREDICTING = ("classify", "regress", "tag", "seq2seq", "forecast", "multilabel", "joint")


class Sum(Cell):
    """An accumulator: what is predicted after some steps is affine in the sum of the inputs and in their number."""

    def step(self, x: Any, h: Any) -> Any:
        return h + self.linear("a", x)


@pytest.fixture(scope="session")
def book(tiny_run: TinyRun) -> Path:
    """A character model."""
    return tiny_run.path


@pytest.fixture(scope="session")
def accumulator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A regression whose recurrence only adds."""
    folder = tmp_path_factory.mktemp("accumulator")
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 5, 1))
    np.savez(folder / "data.npz", X=x, y=x.sum((1, 2)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSPOOL_CACHE", str(folder / "cache"))
        patch.setenv("UNSPOOL_ENGINE", "off")
        own: dict[str, Any] = {"hidden": 1, "layers": 1, "pooling": "last", "bidirectional": False, "input_window": 0}
        own |= {"steps": 40, "eval_every": 40, "lr": 0.05}
        train(folder / "data.npz", out=folder / "sum", task="regress", cell=Sum, quiet=True, **own)
    return folder / "sum"


@pytest.fixture(scope="session")
def predicting(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each task that predicts from whole examples."""
    found: dict[str, Path] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSPOOL_ENGINE", "off")
        for task in PREDICTING:
            folder = tmp_path_factory.mktemp(task)
            patch.setenv("UNSPOOL_CACHE", str(folder / "cache"))
            data, _ = write_data(folder, task)
            own = OWN.get(task, {"engine": "torch"})
            train(data, out=folder / task, quiet=True, **{**OPTIONS, **own, "task": task, "steps": 2})
            found[task] = folder / task
    assert set(FILES) >= set(PREDICTING) - {"joint"}
    return found


@pytest.fixture(scope="session")
def exact_sum(accumulator: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """h + x: what it predicts is the sum of the inputs, which is exact for whole numbers below 2²⁴."""
    return make_exact(shutil.copytree(accumulator, tmp_path_factory.mktemp("exact") / "sum"))


def make_exact(folder: Path) -> Path:
    """Replace the weights and the scales of an accumulator by ones and zeros."""
    tensors, facts = read_tensors(folder / "model.safetensors")
    for name, one in tensors.items():
        one.fill_(0 if name.endswith(("b_a", "bias")) else 1)
    facts["origin"]["vocabulary"] = None
    write_tensors(folder / "model.safetensors", tensors, facts)
    network, scales = (read_sealed(folder / name, "") for name in ("network.json", "vocabulary.json"))
    network["origin"]["vocabulary"] = None
    for scale in (scales, scales["targets"]):
        scale["mean"], scale["deviation"] = [0.0], [1.0]
    for name, document in (("network.json", network), ("vocabulary.json", scales)):
        (folder / name).write_text(json.dumps(seal(document)))
    return folder
