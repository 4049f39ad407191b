"""TextGenerator: text from a trained language model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self, cast

import numpy as np

from unspool.data.vocabulary import Vocabulary
from unspool.decoding.generation import beam_search, generate
from unspool.decoding.sampling import Sampling
from unspool.decoding.text_stream import TextStream
from unspool.errors import ArgumentError, DivergenceError
from unspool.models.language_model import LanguageModel
from unspool.runs.config import Config
from unspool.runs.load import load_run, use
from unspool.tasks.lm import LanguageModelling, first_prompt, textless_ids


class TextGenerator:
    """The best model of a run.

    Example:
        generator = TextGenerator.load("runs/book")
        for piece in generator.stream("The ", 80, Sampling(0.8), seed=0):
            print(piece, end="")
    """

    def __init__(
        self, model: LanguageModel, vocabulary: Vocabulary, config: Config, run: str | Path | None = None
    ) -> None:
        self.model, self.vocabulary, self.config, self.run = model.eval(), vocabulary, config, run

    @classmethod
    def load(cls, run: str | Path) -> Self:
        """From the folder of a run; refused where its task does not generate text."""
        config, task, model = load_run(run)
        if not task.generates:
            problem = f"is of the task {task.name}, which generates no text"
            raise ArgumentError.of("run", str(run), problem, "Give the run of a language model")
        return cls(cast(LanguageModel, model), cast(LanguageModelling, task).vocabulary, config, run)

    def stream(
        self, prompt: str, count: int, sampling: Sampling, seed: int | None = None, stop: Sequence[str] = ()
    ) -> Iterator[str]:
        """Sample a continuation, piece by piece; bad input is refused at once.

        Args:
            prompt: The text to continue; empty: a new line.
            count: How many tokens to sample.
            sampling: How they are sampled.
            seed: The seed of the sampling; None: another one each time.
            stop: Texts before which it ends.

        Returns:
            An iterator over pieces of text, each as soon as it is certain.
        """
        if seed is not None and not 0 <= seed < 2**63:
            raise ArgumentError.of("seed", seed, "is not a number that a generator takes", "Give one from 0 to 2⁶³ − 1")
        generator = np.random.default_rng(seed)
        ids = self.prompt(prompt)
        text = TextStream(self.vocabulary.decode, tuple(stop), ids)
        return self._explained(ids, _pieces(text, generate(self.model, ids, count, sampling, generator)))

    def search(self, prompt: str, count: int, width: int, stop: str | None = None) -> list[tuple[float, str]]:
        """The most probable continuations by beam search.

        Args:
            prompt: The text to continue; empty: a new line.
            count: The most tokens of a continuation.
            width: The number of beams.
            stop: The text of one token, at which a continuation ends.

        Returns:
            Pairs of log-probability and text, the best first.
        """
        ids = self.prompt(prompt)
        ends = [None] if stop is None else self.vocabulary.ids(stop)
        if len(ends) != 1 or ends[0] in self.banned:
            remedy = "Leave it out, or sample, which stops anywhere"
            raise ArgumentError.of("stop", stop, "is not one token, at which a search can stop", remedy)
        with self._explaining(ids):
            found = beam_search(self.model, ids, count, width, stop_id=ends[0], banned=self.banned)
        return [(score, self._text(ids, tokens)) for score, tokens in found]

    def _text(self, prompt: Sequence[int], tokens: Iterable[int]) -> str:
        return "".join(_pieces(TextStream(self.vocabulary.decode, (), prompt), tokens))

    @property
    def banned(self) -> tuple[int, ...]:
        """Ids that are never generated: they stand for no text."""
        return textless_ids(self.vocabulary)

    def prompt(self, text: str) -> list[int]:
        """The ids to start from: of the text, at the start of a line where the model was trained on lines."""
        ids = self.vocabulary.ids(text)
        if not ids or self.config.data.split == "lines":
            with self._explaining([0]):
                return [*first_prompt(self.model, self.vocabulary), *ids]
        return ids

    def _explained(self, ids: Sequence[int], pieces: Iterator[str]) -> Iterator[str]:
        with self._explaining(ids):
            yield from pieces

    @contextmanager
    def _explaining(self, ids: Sequence[int]) -> Iterator[None]:
        """A context in which NaN and infinity are reported with the step of the run and the layer."""
        try:
            yield
        except DivergenceError as error:
            if self.run is None:
                raise
            reason = error

            def read_again() -> None:
                self.model.predict(np.array(ids, np.int64)[:, None], None)
                raise reason

            use(self.run, self.model, read_again)

    def unknown_characters(self, text: str) -> list[str]:
        """The characters of a text that the vocabulary does not have, each once; none where tokens are longer."""
        if self.vocabulary.kind != "char":
            return []
        pairs = zip(text, self.vocabulary.ids(text), strict=True)
        return list(dict.fromkeys(character for character, number in pairs if number in self.banned))


def _pieces(text: TextStream, tokens: Iterable[int]) -> Iterator[str]:
    for token in tokens:
        piece = text.push(token)
        if piece:
            yield piece
        if text.stopped:
            return
    yield text.finish()
