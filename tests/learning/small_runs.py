"""Small runs, in this process or in others that can be killed, and what a run came to, to compare bit for bit."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from unspool.learning.events import Listener
from unspool.learning.files import read_tensors
from unspool.learning.run_folder import RunFolder
from unspool.runs.progress import silent
from unspool.runs.train import train
from unspool.tasks import lm as language_model

LINE = "the quick brown fox jumps over the lazy dog; then it sleeps.\n"
#: Random numbers of dropout, averaged weights and a carried state: all of it must be resumed.
OPTIONS: dict[str, Any] = {
    **{"hidden": 8, "layers": 2, "dropout": 0.2, "engine": "torch"},
    **{"batch_size": 4, "bptt": 8, "average": "ema", "schedule": "cosine", "warmup": 5},
}

#: Characters of a sample: it is half of such a run's time otherwise.
SAMPLE = 10

# One process reads torch once; it has no threads, and forks a child for each run.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["unspool.runs.train"])


def write_text(folder: Path, lines: int = 12) -> Path:
    """A text to train on."""
    path = folder / "text.txt"
    path.write_text(LINE * lines, encoding="utf-8")
    return path


def begin_or_resume(text: Path, run: Path, tell: Listener = silent, **options: Any) -> None:
    """Train; resume the run if there is one."""
    if (run / "config.toml").exists():
        train(out=run, resume=True, tell=tell)
    else:
        train(text, out=run, tell=tell, **OPTIONS | options)


def start(function: Callable[..., None], *arguments: Any) -> BaseProcess:
    """A process that calls a function of some module; it keeps tokens where this process does."""
    process = _FORKS.Process(target=_call, args=(os.environ.get("UNSPOOL_CACHE"), function, arguments))
    process.start()
    return process


def run_elsewhere(function: Callable[..., None], *arguments: Any) -> int:
    """The exit code of such a process, negative if a signal ended it."""
    process = start(function, *arguments)
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def pipe() -> Any:
    """Two ends of a pipe between this process and one that is started."""
    return _FORKS.Pipe()


def _call(cache: str | None, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    if cache is not None:
        os.environ["UNSPOOL_CACHE"] = cache
    torch.set_num_threads(1)
    language_model.SAMPLE = SAMPLE
    function(*arguments)


def outcome(run: Path) -> dict[str, Any]:
    """What a run came to, but for the time it took: all tensors and numbers of its last checkpoint, and its logs."""
    found = RunFolder(run).read_checkpoint()
    assert found is not None
    assert found.damaged == ()
    position = {key: value for key, value in found.facts["position"].items() if key != "seconds"}
    assert position["step"] > 0
    return {
        "tensors": {name: as_bytes(tensor) for name, tensor in found.tensors.items()},
        "position": repr(position),  # NaN equals itself in words
        "optimizer": found.facts["optimizer"],
        "vocab_size": (run / "vocabulary.json").read_bytes(),
        "best": (run / "model.safetensors").read_bytes(),
        "samples": (run / "samples.txt").read_text(encoding="utf-8"),
        "evaluated": [without_time(event) for event in metrics(run) if event["event"] == "evaluated"],
    }


def as_bytes(tensor: torch.Tensor) -> tuple[str, bytes]:
    """A tensor, bit for bit."""
    return f"{tensor.dtype} {tuple(tensor.shape)}", tensor.reshape(-1).view(torch.uint8).numpy().tobytes()


def metrics(run: Path) -> list[dict[str, Any]]:
    """The events of metrics.jsonl."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def without_time(event: dict[str, Any]) -> dict[str, Any]:
    """An event, but for the seconds."""
    return {key: value for key, value in event.items() if key != "seconds"}


def assert_whole(run: Path) -> None:
    """Every file of a run's folder can be read to its end, and there is no other."""
    files = [path for path in run.rglob("*") if path.is_file()]
    assert [path for path in files if path.name.startswith(".")] == []
    for path in files:
        if path.suffix == ".safetensors":
            read_tensors(path)
        if path.name == "metrics.jsonl":
            assert path.read_bytes()[-1:] in (b"", b"\n")
            metrics(run)
