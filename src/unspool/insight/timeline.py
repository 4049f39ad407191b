"""Timeline: X-rays of a model during training, at evaluations, for one page with a slider."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unspool.cells.cell import check_size
from unspool.insight.catalogue import CATALOGUE
from unspool.insight.examination import examine
from unspool.insight.measures.similarity import layer_states
from unspool.insight.report.advice import PYTHON, Spelling
from unspool.insight.report.contract import Content
from unspool.insight.sections.similarity import ROWS, tell_moments
from unspool.insight.subjects.run import find_material, take_learner
from unspool.language import ENGLISH, Message
from unspool.learning.contract import Learner
from unspool.learning.events import Evaluated
from unspool.runs.config import Config
from unspool.storage.files import write_file
from unspool.tasks.contract import Material, Task

#: What changes during training and is quick to measure; and the sections that the page shows.
MEASURED = tuple(measure.key for measure in CATALOGUE if measure.timeline is not None)
SHOWN = tuple(measure.key for measure in CATALOGUE if measure.timeline == "shown")


class Timeline:
    """Looks into a model after every n-th evaluation, always over the same data.

    Args:
        every: look at the first evaluation, then at every n-th, and at the last.

    Example:
        >>> timeline = Timeline(every=2)
        >>> unspool.train("book.txt", out="runs/book", watch=timeline.watch)  # doctest: +SKIP
        >>> timeline.save("runs/book/timeline.html")  # doctest: +SKIP
    """

    def __init__(self, every: int) -> None:
        self.every = check_size("every", every)
        self._seen = 0
        self._frames: list[tuple[str, Content]] = []
        self._states: dict[str, NDArray[np.float64]] = {}  # of the highest layer, by moment
        self._material: Material | None = None

    def watch(self, config: Config, task: Task, learner: Learner, run: str | Path, event: Evaluated) -> None:
        """Take note of one evaluation."""
        self._seen += 1
        if (self._seen - 1) % self.every and event.fraction < 1:  # the last one always counts
            return
        if any(parameter.device.type != "cpu" for parameter in learner.parameters()):
            learner = deepcopy(learner).cpu()  # what is recorded is computed on the CPU
        if self._material is None:
            self._material = find_material(task, learner, config, None, lambda: task)
        specimen = take_learner(learner, config, self._material, run)
        moment = Message("step {step:,}", step=event.step)
        self._frames.append((moment, examine(specimen, only=MEASURED)))
        *_, self._states[moment] = layer_states(specimen.recording, ROWS).values()

    def save(self, path: str | Path, spelling: Spelling = PYTHON, language: str = ENGLISH) -> Path | None:
        """Write the page.

        Args:
            path: the file.
            spelling: how settings are written; by default as in Python.
            language: `en` or `zh`.

        Returns:
            The path; None if there was no evaluation, so that there is no page.
        """
        if not self._frames:
            return None
        from unspool.insight.report.timeline import render_timeline  # brings plotly, which takes a second

        known = {section.key for _, report in self._frames for section in report.sections}
        shown = [key for key in SHOWN if key in known]
        still = tell_moments(self._states)
        page = render_timeline(self._frames, shown, spelling=spelling, language=language, still=still)
        write_file(Path(path), page.encode())
        return Path(path)
