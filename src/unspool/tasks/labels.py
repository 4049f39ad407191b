"""What classification has in common, be it of one label per example or of several: labels, and how they are listed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.data.inputs import Inputs
from unspool.tasks.label_lists import rank_labels, ranked_columns
from unspool.tasks.labelled import LabelledPart, LabelledTask, show_input


class LabelTask(LabelledTask):
    """A task that predicts labels. A prediction is the probability of each; a subclass says which are chosen."""

    #: How many of the most probable labels a prediction lists; None: those that are chosen, and all probabilities.
    top: int | None = None

    def __init__(
        self, parts: Mapping[str, LabelledPart], inputs: Inputs, labels: Sequence[str], data: Any, **of: Any
    ) -> None:
        super().__init__(parts, **of)
        self.inputs, self.labels, self.data = inputs, list(labels), data
        self._baselines: dict[str, dict[str, dict[str, float]]] = {}  # by part

    @abstractmethod
    def spell_choice(self, probabilities: NDArray[np.float64]) -> str:
        """The label that is predicted, or all of them."""

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(map(str, self.labels))

    @property
    def prediction_columns(self) -> tuple[str, ...]:
        if self.top is None:
            return (self.input_column, self.predicted, *(f"p({label})" for label in self.labels))
        return (self.input_column, *ranked_columns(self.labels, self.top))

    def record(self, part: LabelledPart, index: int, prediction: Any) -> dict[str, Any]:
        shown = show_input(part.raw, index)
        if self.top is not None:
            return {self.input_column: shown, **dict(rank_labels(self.labels, prediction, self.top))}
        values = [shown, self.spell_choice(prediction), *map(float, prediction)]
        return dict(zip(self.prediction_columns, values, strict=True))
