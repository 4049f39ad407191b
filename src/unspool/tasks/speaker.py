"""Speaker: a trained language model that says things, and judges how likely a text is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch

from unspool.data.text import Source, find_files, read_pieces
from unspool.data.vocabulary import Vocabulary, load_vocabulary
from unspool.errors import ArgumentError, DataError
from unspool.learning.files import read_tensors
from unspool.learning.run import check_run
from unspool.tasks.config import Config, read_config
from unspool.tasks.generation import Sampling, TextStream, beam_search, generate
from unspool.tasks.language_model import LanguageModel, LanguageModelling, figures, make_model, unsayable


class Speaker:
    """The best model of a run's folder."""

    def __init__(self, model: LanguageModel, vocabulary: Vocabulary, config: Config) -> None:
        self.model, self.vocabulary, self.config = model.eval(), vocabulary, config

    @classmethod
    def load(cls, run: str | Path) -> Self:
        """From a folder that `unspool train` made."""
        path = Path(run)
        config = read_config(check_run(path))
        if not issubclass(config.task, LanguageModelling):
            raise ArgumentError.of("run", str(path), f"is of the task {config.task.name}", "Give a language model's")
        try:
            vocabulary = load_vocabulary(json.loads((path / "vocabulary.json").read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise DataError(f"{path / 'vocabulary.json'} cannot be read: {error}.") from error
        if not (path / "model.safetensors").exists():
            raise DataError(f"{path} has no model yet. Go on with it: unspool train {path} --resume.")
        tensors, _ = read_tensors(path / "model.safetensors")
        model = make_model(vocabulary, config.model)
        try:
            model.load_state_dict(tensors)
        except RuntimeError as error:
            raise DataError(f"{path / 'model.safetensors'} does not fit the run's config: {error}") from error
        return cls(model, vocabulary, config)

    def evaluate(self, source: Source) -> dict[str, float]:
        """Loss, perplexity and bits of text files, read once through."""
        ids = np.concatenate([np.empty(0, np.int64), *self.vocabulary.encode(read_pieces(find_files(source)))])
        if len(ids) < 2:
            raise DataError(f"{source} has {len(ids)} token(s). Give text of two at least.")
        return figures(LanguageModelling.measure(self.model, ids))

    def stream(
        self, prompt: str, count: int, sampling: Sampling, seed: int | None = None, stop: Sequence[str] = ()
    ) -> Iterator[str]:
        """What it says after a prompt, piece by piece, as soon as a piece is certain."""
        generator = torch.Generator()
        generator.seed() if seed is None else generator.manual_seed(seed)
        ids = self.prompt(prompt)
        text = TextStream(self.vocabulary.decode, tuple(stop), ids)
        for token in generate(self.model, ids, count, sampling, generator):
            piece = text.push(token)
            if piece:
                yield piece
            if text.stopped:
                return
        yield text.finish()

    def likeliest(self, prompt: str, count: int, width: int) -> list[tuple[float, str]]:
        """The likeliest continuations by beam search, with the logarithms of their probabilities, best first."""
        found = beam_search(self.model, self.prompt(prompt), count, width, banned=self.silent)
        return [(score, self.vocabulary.decode(ids)) for score, ids in found]

    @property
    def silent(self) -> tuple[int, ...]:
        """Ids that are never said."""
        return unsayable(self.vocabulary)

    def prompt(self, text: str) -> list[int]:
        """The ids to start from: of the text, or of a new line where there is none."""
        ids = self.vocabulary.ids(text or "\n")
        return ids or [min(1, len(self.vocabulary) - 1)]
