"""TextGenerator: text from a language model, whatever computes its logits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from unspool.cells.cell import check_size
from unspool.data.vocabulary import Vocabulary
from unspool.decoding.generation import Predictor, beam_search, generate
from unspool.decoding.sampling import Sampling, check_seed
from unspool.decoding.text_stream import TextStream
from unspool.errors import ArgumentError, DivergenceError
from unspool.tasks.lm import check_text, first_prompt, textless_ids


class TextGenerator:
    """A language model and its vocabulary.

    Args:
        model: In evaluation mode.
        vocabulary: Its tokens.
        lines: Whether the model was trained on lines, so that a prompt starts one.

    Example:
        for piece in generator.stream("The ", 80, Sampling(0.8), seed=0):
            print(piece, end="")
    """

    def __init__(self, model: Predictor, vocabulary: Vocabulary, lines: bool = False) -> None:
        self.model, self.vocabulary, self.lines = model, vocabulary, lines

    def stream(
        self, prompt: str, count: int, sampling: Sampling, seed: int | None = None, stop: Sequence[str] = ()
    ) -> Iterator[str]:
        """Sample a continuation, piece by piece; bad input is refused at once.

        Args:
            prompt: The text to continue; empty: a new line.
            count: How many tokens to sample; 0: none.
            sampling: How they are sampled.
            seed: The seed of the sampling; None: another one each time.
            stop: Texts before which it ends.

        Returns:
            An iterator over pieces of text, each as soon as it is certain.
        """
        generator = np.random.default_rng(check_seed(seed))
        ids = self.prompt(prompt)
        text = TextStream(self.vocabulary.decode, tuple(stop), ids)
        tokens = generate(self.model, ids, count, sampling, generator) if check_size("count", count, 0) else iter(())
        return self._explained(ids, _pieces(text, tokens))

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
        ids = self.vocabulary.ids(check_text("prompt", text))
        if not ids or self.lines:
            with self._explaining([0]):
                return [*first_prompt(self.model, self.vocabulary), *ids]
        return ids

    def explain(self, error: DivergenceError, ids: Sequence[int]) -> None:
        """Raise an error that says more than this one, which came while the model read ids; nothing, if none can."""

    def _explained(self, ids: Sequence[int], pieces: Iterator[str]) -> Iterator[str]:
        with self._explaining(ids):
            yield from pieces

    @contextmanager
    def _explaining(self, ids: Sequence[int]) -> Iterator[None]:
        """A context in which `explain` is asked about NaN and infinity."""
        try:
            yield
        except DivergenceError as error:
            self.explain(error, ids)
            raise

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
    rest = text.finish()
    if rest:
        yield rest
