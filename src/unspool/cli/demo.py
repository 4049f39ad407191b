"""unspool demo: a model learns to write from the Python reference that is in every Python, and is looked into."""

from __future__ import annotations

import hashlib
import pydoc_data.topics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from unspool.cli.look import Look
from unspool.cli.train import finish, follow, free_name
from unspool.data.cache import cache_folder, made_once

NAME = "python-reference.txt"


def demo(
    minutes: Annotated[float, typer.Option(min=0.05, help="How long it trains.")] = 3.0,
    out: Annotated[Path | None, typer.Option(help="The run's folder; runs/demo if not said.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing.")] = False,
) -> None:
    """Train a character model on the Python language reference, watch it learn, and look inside what it became.

    **Examples**

    - `unspool demo`: three minutes
    - `unspool demo --minutes 1 --out /tmp/demo`
    """
    out = out or free_name("demo")
    with kept_reference() as text:
        options = {"hidden": 256, "minutes": minutes, "rate": 4e-3, "batch": 32, "window": 64}
        trained = follow(source=str(text), out=out, options=options, json=json, quiet=quiet)
        finish(trained)
        Look(last=True).finish(out, json or quiet)


def reference() -> str:
    """The Python language reference, 465 kB of English."""
    return "\n".join(text for _, text in sorted(pydoc_data.topics.topics.items()))


@contextmanager
def kept_reference() -> Iterator[Path]:
    """Its file, in the cache, so that the run can go on and be evaluated another day; without a cache, for now."""
    content = reference().encode()
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
