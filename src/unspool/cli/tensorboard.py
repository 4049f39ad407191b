"""TensorBoard: a run's metrics in the form that its viewer reads; torch's own writer makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unspool.errors import MissingPackageError
from unspool.learning.events import Evaluated, Event, Finished, Listener, Started, Stepped


class TensorBoard:
    """A listener that passes everything on, and writes losses, rates and samples below the run's folder."""

    def __init__(self, listener: Listener) -> None:
        with MissingPackageError.explaining("--tensorboard"):
            from torch.utils.tensorboard import SummaryWriter
        self._listener, self._make = listener, SummaryWriter
        self._writer: Any = None

    def __call__(self, event: Event) -> None:
        """Write what can be drawn, and pass it on."""
        self._listener(event)
        if isinstance(event, Started):
            # what a run that was killed wrote after the checkpoint that it goes on from is not drawn
            purge = event.step + 1 if event.step else None
            self._writer = self._make(str(Path(event.run) / "tensorboard"), purge_step=purge)
        elif isinstance(event, Stepped):
            for name in ("loss", "lr", "speed", "norm", "clipped"):
                self._writer.add_scalar(f"training/{name}", getattr(event, name), event.step)
        elif isinstance(event, Evaluated):
            self._write_evaluation(event)
        elif isinstance(event, Finished):
            self._writer.close()

    def _write_evaluation(self, event: Evaluated) -> None:
        for name, value in event.validation.items():
            self._writer.add_scalar(f"validation/{name}", value, event.step)
        self._writer.add_text("sample", f"```\n{event.sample}\n```", event.step)
        self._writer.flush()  # whatever happens next
