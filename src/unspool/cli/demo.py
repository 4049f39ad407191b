"""unspool demo: train on the Python reference that ships with every Python, then X-ray the model."""

from __future__ import annotations

import hashlib
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from unspool.cache import cache_folder
from unspool.cli.terminal import console
from unspool.cli.train import finish, follow
from unspool.cli.xray_training import TrainingXray
from unspool.data.cache import made_once
from unspool.lab.data import python_reference
from unspool.runs.names import free_name

NAME = "python-reference.txt"


def demo(
    minutes: Annotated[float, typer.Option(min=0.05, help="Training time.")] = 3.0,
    out: Annotated[Path | None, typer.Option(help="The run folder. Default: runs/demo.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Train a character model on the Python language reference, watch it learn, and look inside it.

    **Examples**

    - `unspool demo`: three minutes
    - `unspool demo --minutes 1 --out /tmp/demo`
    """
    out = out or free_name("demo")
    with kept_reference() as text:
        options = {"hidden": 256, "minutes": minutes, "lr": 4e-3, "batch_size": 32, "bptt": 64}
        trained = follow(source=str(text), out=out, options=options, json=json, quiet=quiet)
        finish(trained)
        TrainingXray(last=True).finish(out, json or quiet)
    if not (json or quiet):
        console(error=True).print(f"Serve it: unspool serve {shlex.quote(str(out))}", soft_wrap=True, highlight=False)


@contextmanager
def kept_reference() -> Iterator[Path]:
    """The reference as a file in the cache, so that the run can be resumed later; without a cache, a temporary one."""
    content = python_reference().encode()
    key = hashlib.sha256(content).hexdigest()[:32]

    def make(folder: Path) -> None:
        (folder / NAME).write_bytes(content)

    made_once("demo", key, make, lambda folder: (folder / NAME).is_file())
    kept = cache_folder() / "demo" / key / NAME
    if kept.is_file():
        yield kept
        return
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / NAME
        text.write_bytes(content)
        yield text
