"""Small runs of every task, and what comes of using them: the subjects of the fuzzer of run folders."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tests.cli.test_predict import DATA, TEXTS
from tests.tasks.slot_folders import travel_lines, write_slots

from unspool import Cell, sigmoid, tanh
from unspool.cli.opening import TorchRun
from unspool.decoding.sampling import Sampling
from unspool.insight.subjects.run import take_run
from unspool.learning.run_folder import RunFolder
from unspool.runs.generator import TextGenerator
from unspool.runs.load import load_run, use
from unspool.runs.train import train
from unspool.tasks import lm as language_model

TEXT = "the quick brown fox jumps over the lazy dog; then it sleeps.\n" * 12
STEPS, MORE = 4, 6
OPTIONS: dict[str, Any] = {
    **{"hidden": 4, "steps": STEPS, "eval_every": 2, "batch_size": 4, "average": "ema"},
    **{"schedule": "constant", "dropout": 0.1},
}
OWN: dict[str, Any] = {
    "lm": {"bptt": 8, "engine": "torch"},
    "own cell": {"bptt": 8},
    "classify": {"subwords": 20, "engine": "torch"},
    "multilabel": {"subwords": 20, "engine": "torch"},
    "joint": {"char_hidden": 2, "engine": "torch"},
    "forecast": {"horizon": 3, "validation": 6, "engine": "torch"},
    "tag": {"char_hidden": 2, "engine": "torch"},
}


class Minimal(Cell):
    """A user's cell, whose equations the folder keeps."""

    def step(self, x: Any, h: Any) -> Any:
        z = sigmoid(self.linear("z", x))
        n = tanh(self.linear("n", x, z * h))
        return (1 - z) * h + z * n


class Subject(NamedTuple):
    """A run, another one of the same task with another seed, data to use it on, and what comes of using it."""

    task: str
    run: Path
    other: Path
    data: Path
    expected: Mapping[str, str]


#: The file name's end, training data, and new data.
FILES = {
    **DATA,
    "lm": ("txt", TEXT, TEXT[:200]),
    "own cell": ("txt", TEXT, TEXT[:200]),
    "multilabel": (
        "csv",
        "text,labels\n" + "".join(f"{text},{'|'.join(sorted({*text.split()}))}\n" for text in TEXTS),
        "text\nred hot\ncold\n",
    ),
}
TASKS = ("lm", "own cell", *DATA, "multilabel", "joint")


def make_subject(folder: Path, task: str) -> Subject:
    """Train the runs of a task, and use the first."""
    folder.mkdir()
    data, used = write_data(folder, task)
    own = {**OWN.get(task, {"engine": "torch"}), **({"cell": Minimal} if task == "own cell" else {})}
    options = {**OPTIONS, **own, "task": "lm" if task == "own cell" else task}
    for seed, name in enumerate(("run", "other")):
        train(data, out=folder / name, seed=seed, quiet=True, **options)
    found = Subject(task, folder / "run", folder / "other", used, {})
    shutil.copytree(found.run, folder / "copy")
    return found._replace(expected={name: action(found, folder / "copy") for name, action in ACTIONS.items()})


def write_data(folder: Path, task: str) -> tuple[Path, Path]:
    """Write the data to train on, and the data to use the runs on."""
    if task == "joint":
        lines = travel_lines(24)
        return write_slots(folder / "training", lines), write_slots(folder / "new", lines[:3])
    suffix, *texts = FILES[task]
    paths = folder / f"training.{suffix}", folder / f"new.{suffix}"
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def load(subject: Subject, run: Path) -> str:
    learner = load_run(run).learner
    return _digest(learner.state_dict())


def evaluate(subject: Subject, run: Path) -> str:
    opened = TorchRun(run)
    own = opened.own_data()
    return repr(opened.use(lambda: own.evaluate(opened.model, "validation")))


def predict(subject: Subject, run: Path) -> str:
    _, task, learner = load_run(run)
    if task.generates:
        return repr(use(run, learner, lambda: task.evaluate_files(learner, [str(subject.data)])))
    return repr(use(run, learner, lambda: list(task.predict_files(learner, [str(subject.data)]))))


def generate(subject: Subject, run: Path) -> str:
    if subject.task not in ("lm", "own cell"):
        return ""
    generator = TextGenerator.load(run)
    return "".join(generator.stream("the ", 8, Sampling(0.8, banned=generator.banned), seed=0))


def xray(subject: Subject, run: Path) -> str:
    return repr(take_run(run).facts[-1])


def resume(subject: Subject, run: Path) -> str:
    """The weights that longer training ends with."""
    finished = train(out=run, resume=True, steps=MORE, quiet=True).finished
    found = RunFolder(run).read_checkpoint()
    assert found is not None
    return f"{_digest(found.tensors)} {load(subject, run)} {finished.validation!r}"


ACTIONS: dict[str, Callable[[Subject, Path], str]] = {
    **{"load": load, "evaluate": evaluate, "predict": predict},
    **{"generate": generate, "xray": xray, "resume": resume},
}


def quick() -> None:
    """Settings of a process in which runs are only used: little text is sampled, and no disk is waited for."""
    os.fsync = lambda fd: None
    torch.set_num_threads(1)
    language_model.SAMPLE = 10
    language_model.LINE = 10


def _digest(tensors: Mapping[str, Any]) -> str:
    total = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
