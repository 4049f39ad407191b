"""Speaker: a trained language model that says things."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import torch

from unspool.data.vocabulary import Vocabulary
from unspool.errors import ArgumentError
from unspool.tasks.config import Config
from unspool.tasks.generation import Sampling, TextStream, beam_search, generate
from unspool.tasks.language_model import LanguageModel, LanguageModelling, opening, unsayable
from unspool.tasks.load import load_run


class Speaker:
    """The best model of a run's folder."""

    def __init__(self, model: LanguageModel, vocabulary: Vocabulary, config: Config) -> None:
        self.model, self.vocabulary, self.config = model.eval(), vocabulary, config

    @classmethod
    def load(cls, run: str | Path) -> Self:
        """From a folder that `unspool train` made."""
        config, task, model = load_run(run)
        if not isinstance(task, LanguageModelling) or not isinstance(model, LanguageModel):
            raise ArgumentError.of("run", str(run), f"is of the task {task.name}", "Give a language model's")
        return cls(model, task.vocabulary, config)

    def stream(
        self, prompt: str, count: int, sampling: Sampling, seed: int | None = None, stop: Sequence[str] = ()
    ) -> Iterator[str]:
        """What it says after a prompt, piece by piece, as soon as a piece is certain; bad input is refused at once."""
        if seed is not None and not 0 <= seed < 2**63:
            raise ArgumentError.of("seed", seed, "is not a number that a generator takes", "Give one from 0 to 2⁶³ − 1")
        generator = torch.Generator()
        generator.seed() if seed is None else generator.manual_seed(seed)
        ids = self.prompt(prompt)
        text = TextStream(self.vocabulary.decode, tuple(stop), ids)
        return _pieces(text, generate(self.model, ids, count, sampling, generator))

    def likeliest(self, prompt: str, count: int, width: int, stop: str | None = None) -> list[tuple[float, str]]:
        """The likeliest continuations by beam search, with the logarithms of their probabilities, best first."""
        ids = self.prompt(prompt)
        ends = [None] if stop is None else self.vocabulary.ids(stop)
        if len(ends) != 1 or ends[0] in self.silent:
            remedy = "Leave it out, or draw samples, which stop anywhere"
            raise ArgumentError.of("stop", stop, "is not one token, at which a search can stop", remedy)
        found = beam_search(self.model, ids, count, width, stop_id=ends[0], banned=self.silent)
        return [(score, "".join(_pieces(TextStream(self.vocabulary.decode, (), ids), said))) for score, said in found]

    @property
    def silent(self) -> tuple[int, ...]:
        """Ids that are never said."""
        return unsayable(self.vocabulary)

    def prompt(self, text: str) -> list[int]:
        """The ids to start from: of the text, at the beginning of a line where the model was trained on lines."""
        ids = self.vocabulary.ids(text)
        return [*opening(self.model, self.vocabulary), *ids] if not ids or self.config.data.split == "lines" else ids

    def foreign(self, text: str) -> list[str]:
        """The characters of a text that the vocabulary has not, each once; of words none, as they are not spelled."""
        if self.vocabulary.kind != "characters":
            return []
        pairs = zip(text, self.vocabulary.ids(text), strict=True)
        return list(dict.fromkeys(character for character, number in pairs if number in self.silent))


def _pieces(text: TextStream, tokens: Iterable[int]) -> Iterator[str]:
    for token in tokens:
        piece = text.push(token)
        if piece:
            yield piece
        if text.stopped:
            return
    yield text.finish()
