"""unspool demo: a model learns to write from the Python language reference that is in every Python."""

from __future__ import annotations

import pydoc_data.topics
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from unspool.cli.train import finish, follow, free_name


def demo(
    minutes: Annotated[float, typer.Option(min=0.05, help="How long it trains.")] = 3.0,
    out: Annotated[Path | None, typer.Option(help="The run's folder; runs/demo if not said.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say nothing.")] = False,
) -> None:
    """Train a character model on the Python language reference, watch it learn, and keep it in a run's folder.

    **Examples**

    - `unspool demo`: three minutes
    - `unspool demo --minutes 1 --out /tmp/demo`
    """
    out = out or free_name("demo")
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "python-reference.txt"
        text.write_text(reference(), encoding="utf-8")
        options = {"hidden": 256, "minutes": minutes, "rate": 4e-3, "batch": 32, "window": 64}
        finish(follow(source=str(text), out=out, options=options, json=json, quiet=quiet))


def reference() -> str:
    """The Python language reference, 465 kB of English."""
    return "\n".join(text for _, text in sorted(pydoc_data.topics.topics.items()))
