"""TextGenerator: text from a trained language model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self, cast

import numpy as np

from unspool.data.vocabulary import Vocabulary
from unspool.errors import DivergenceError
from unspool.models.language_model import LanguageModel
from unspool.runs.config import Config
from unspool.runs.load import load_run, use
from unspool.tasks import text_generator
from unspool.tasks.contract import refuse_generation
from unspool.tasks.lm import LanguageModelling


class TextGenerator(text_generator.TextGenerator):
    """The best model of a run.

    Example:
        generator = TextGenerator.load("runs/book")
        for piece in generator.stream("The ", 80, Sampling(0.8), seed=0):
            print(piece, end="")
    """

    model: LanguageModel

    def __init__(
        self, model: LanguageModel, vocabulary: Vocabulary, config: Config, run: str | Path | None = None
    ) -> None:
        super().__init__(model.eval(), vocabulary, config.data.split == "lines")
        self.config, self.run = config, run

    @classmethod
    def load(cls, run: str | Path) -> Self:
        """From the folder of a run; refused where its task does not generate text."""
        config, task, model = load_run(run)
        refuse_generation(task, run)
        return cls(cast(LanguageModel, model), cast(LanguageModelling, task).vocabulary, config, run)

    def explain(self, error: DivergenceError, ids: Sequence[int]) -> None:
        """NaN and infinity are reported with the step of the run and the layer."""
        if self.run is None:
            return

        def read_again() -> None:
            self.model.predict(np.array(ids, np.int64)[:, None], None)
            raise error

        use(self.run, self.model, read_again)
