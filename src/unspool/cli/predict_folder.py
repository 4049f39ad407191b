"""unspool predict with a folder as output: many files, one output file each, here or on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeGuard

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from unspool.cli.terminal import console
from unspool.data.problems import Problems, warn
from unspool.errors import ArgumentError
from unspool.partitions.predict import Options, Summary, predict_partitions
from unspool.partitions.work import Outcome


def is_folder(out: Path | None) -> TypeGuard[Path]:
    """Whether the output is a folder: one that is there, or a name without a suffix."""
    return out is not None and (out.is_dir() or not out.suffix)


def predict_folder(
    run: Path,
    files: Sequence[str] | None,
    texts: Sequence[str] | None,
    out: Path,
    options: Options,
    dask: str | None,
) -> None:
    """Predict files into a folder.

    Args:
        run: The folder of the run.
        files: Files, folders and patterns.
        texts: Must be none; they have no file.
        out: The folder.
        options: What else predictions depend on.
        dask: The address of a cluster; None: this process.

    Raises:
        DataError: Some files could not be predicted; the others are there.
    """
    if texts or not files or "-" in files:
        problem = "must be files if `out` is a folder"
        raise ArgumentError.of("FILE", files or texts, problem, "Name files, or give a .csv or .jsonl file as `out`")
    with Progress(
        TextColumn("predicting"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files"),
        TimeRemainingColumn(),
        console=console(error=True),
        transient=True,
        disable=not console(error=True).is_terminal,
    ) as progress:
        bar = progress.add_task("files", total=None)

        def tell(_: Outcome, done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total)

        summary = predict_partitions(run, files, out, options, dask=dask, tell=tell)
    report(summary, out)


def report(summary: Summary, out: Path) -> None:
    """Say what was predicted; refuse files that could not be, after all others are done."""
    done = summary.files - len(summary.failed)
    before = f", {summary.kept:,} of them from before" if summary.kept else ""
    said = f"{summary.rows:,} predictions in {done:,} files in {out}{before}"
    console(error=True).print(said, soft_wrap=True)
    if summary.missing:
        warn(f"{summary.missing:,} of {summary.rows:,} rows have no prediction. The column `note` says why.")
    Problems(outcome.problem for outcome in summary.failed).refuse()
