"""Film: X-rays of a model while it learns, at evaluations, for one page with a slider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unspool.cells.cell import check_size
from unspool.insight.examination import examine
from unspool.insight.report.contract import Report
from unspool.insight.report.film import render_film
from unspool.insight.subjects.run import Material, find_material, take_learner
from unspool.learning.contract import Learner, Task
from unspool.learning.events import Evaluated
from unspool.learning.files import write_file
from unspool.tasks.config import Config

#: What changes as a network learns, and is quick to measure.
MEASURES = ("flow", "truncation", "forgetting", "gates", "time_constants", "activations", "attenuation", "lyapunov")
SHOWN = ("flow", "truncation", "time-constants", "lyapunov")


class Film:
    """Looks at a model after every n-th evaluation, always over the same data."""

    def __init__(self, every: int) -> None:
        self.every = check_size("every", every)
        self._seen = 0
        self._frames: list[tuple[str, Report]] = []
        self._material: Material | None = None

    def watch(self, config: Config, task: Task, learner: Learner, run: str | Path, event: Evaluated) -> None:
        """One more evaluation."""
        self._seen += 1
        if (self._seen - 1) % self.every and event.fraction < 1:  # the end is always seen
            return
        if self._material is None:
            self._material = find_material(task, learner, config, None, lambda: task)
        specimen = take_learner(learner, config, self._material, run)
        self._frames.append((f"step {event.step:,}", examine(specimen, only=MEASURES)))

    def save(self, path: Path) -> Path | None:
        """The page; nothing where nothing was seen."""
        if not self._frames:
            return None
        keys: Any = {section.key for _, one in self._frames for section in one.sections}
        write_file(path, render_film(self._frames, [key for key in SHOWN if key in keys]).encode())
        return path
