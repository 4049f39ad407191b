"""X-ray: from a model to a report of what it remembers and where its gradients die."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unspool.errors import ArgumentError
from unspool.insight.catalogue import CATALOGUE
from unspool.insight.examination import examine, report_broken
from unspool.insight.one_thread import one_thread
from unspool.insight.report.report import Report
from unspool.insight.subjects.module import Loss, take_model
from unspool.insight.subjects.run import take_run
from unspool.language import Message


@one_thread()
def xray(
    model: nn.Module | str | Path,
    batch: Any = None,
    *,
    loss: Loss | None = None,
    data: str | Path | None = None,
    bptt: int | None = None,
    only: Collection[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Look inside a recurrent network: what it remembers, where its gradients die, what is wrong, what to change.

    Args:
        model: a module with recurrent layers of `unspool.nn` or `torch.nn`, or the folder of a run.
        batch: what the module reads: a tensor, a tuple of arguments or a dict of named ones. Not for a run.
        loss: makes one number of the module's output. By default the loss that the module returns itself, else a random
            projection of its output. Not for a run.
        data: a file to look at a run over; by default its validation data. For a run only.
        bptt: steps that gradients go back in training, to judge whether they are enough; a run knows its own.
        only: the measures to take, such as `["flow", "gates"]`; by default all. Verdicts that need others are left out.
        progress: called as each measure begins, with its name, its place and about how long the rest takes.

    Returns:
        A report: `print` it for the verdicts, `save` it as a page, or read its `numbers`. A notebook shows the page.

    Example:
        >>> report = unspool.xray(torch.nn.LSTM(8, 16), torch.randn(40, 4, 8))  # doctest: +SKIP
        >>> print(report)  # doctest: +SKIP
        >>> report.save("xray.html")  # doctest: +SKIP
        >>> report.numbers["flow"]["horizon"]  # doctest: +SKIP
    """
    say = progress or (lambda _: None)
    _check_only(only)
    if isinstance(model, str | Path):
        return examine(take_run(model, data), say, only)
    broken = _find_broken(model)
    if broken:
        return report_broken(Message("X-ray of {name}", name=type(model).__name__), broken)
    return examine(take_model(model, batch, loss, bptt), say, only)


def _check_only(only: Collection[str] | None) -> None:
    """Refuse names that no measure has."""
    known = [measure.key for measure in CATALOGUE]
    if only is not None and (isinstance(only, str) or not only or not set(only) <= set(known)):
        wrong = only if isinstance(only, str) else sorted(set(only) - set(known))
        raise ArgumentError.of("only", wrong, "is not a list of measures", f"Choose from {', '.join(known)}")


def _find_broken(model: Any) -> tuple[str, ...]:
    """Names of parameters that are not all finite."""
    named = model.named_parameters() if isinstance(model, nn.Module) else ()
    return tuple(name for name, value in named if not bool(torch.isfinite(value).all()))
