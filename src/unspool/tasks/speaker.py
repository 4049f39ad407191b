"""Speaker: a trained language model that says things, and judges how likely a text is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch

from unspool.data.corpus import Division, prepare
from unspool.data.text import Source
from unspool.data.vocabulary import Vocabulary, load_vocabulary
from unspool.errors import ArgumentError, DataError
from unspool.learning.files import read_tensors
from unspool.learning.run import check_run
from unspool.tasks.config import Config, read_config
from unspool.tasks.generation import Sampling, TextStream, beam_search, generate
from unspool.tasks.language_model import LanguageModel, LanguageModelling, figures, make_model, opening, unsayable


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
            said = str(error).removesuffix(".")
            raise DataError(f"{path / 'vocabulary.json'} cannot be read: {said}.") from error
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
        """Loss, perplexity and bits of text files, read once through; and the share of `unknown` tokens, if any.

        A token that was never read in training counts as the unknown one, which is easier to foresee than what it is.
        """
        ids = prepare(source, Division(validation=0.0), vocabulary=self.vocabulary).training
        if len(ids) < 2:
            raise DataError(f"{source} has {len(ids)} token(s). Give text of two at least.")
        unknown = sum(np.count_nonzero(ids == token) for token in self.silent) / len(ids)
        return figures(LanguageModelling.measure(self.model, ids)) | ({"unknown": unknown} if unknown else {})

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
