"""X-ray: from a model to a report of what it remembers and where its gradients die."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from unspool.insight.subjects.module import Loss, take_model
from unspool.insight.subjects.run import take_run
from unspool.tasks.load import load_run

if TYPE_CHECKING:
    from unspool.insight.report.contract import Report


def xray(
    model: nn.Module | str | Path,
    batch: Any = None,
    *,
    loss: Loss | None = None,
    data: str | Path | None = None,
    window: int | None = None,
    tell: Callable[[str], None] | None = None,
) -> Report:
    """What a model remembers and where its gradients die: `print(report)`, `report.save("x.html")`, `report.numbers`.

    `model` is any module with recurrent layers of unspool.nn or torch.nn, and `batch` what it reads; or the folder of a
    run, which is looked at over its validation data or over the file `data`. `loss` makes a number of the model's
    output; without it a random projection of the output is followed. `window` says how many steps gradients go back in
    training. `tell` hears what is being measured.
    """
    from unspool.insight.examination import examine, name_broken  # brings plotly, which takes a second

    title = f"X-ray of {Path(model).name if isinstance(model, str | Path) else type(model).__name__}"
    broken = _broken(load_run(model).learner if isinstance(model, str | Path) else model)
    if broken:
        return name_broken(title, broken, str(model) if isinstance(model, str | Path) else None)
    specimen = take_run(model, data) if isinstance(model, str | Path) else take_model(model, batch, loss, window)
    return examine(specimen, tell or (lambda _: None))


def _broken(model: Any) -> tuple[str, ...]:
    """Parameters that are not all numbers."""
    named = model.named_parameters() if isinstance(model, nn.Module) else ()
    return tuple(name for name, value in named if not bool(torch.isfinite(value).all()))
