"""SequenceTagger: a tag for every word of a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unspool.errors import ArgumentTypeError, ShapeError
from unspool.estimators.base import Estimator
from unspool.estimators.sequences import check_there
from unspool.tasks.tag import Sentences


class SequenceTagger(Estimator):
    """Tags of words by a recurrent network: the task `tag` on data in memory.

        SequenceTagger().fit([["play", "jazz"]], [["O", "B-genre"]]).predict([["play", "blues"]])

    `X` is a list of sentences, each a list of words, and `y` a list of lists of tags. A parameter that is None is as
    `unspool train --task tag` has it. The best model is chosen on `validation`, a share of the sentences.
    `settings` are further settings of the task by name, such as {"word_dropout": 0.1}.
    """

    task = "tag"
    classes_: NDArray[Any]

    def __init__(
        self,
        *,
        cell: str | None = None,
        hidden: int | None = None,
        layers: int | None = None,
        bidirectional: bool | None = None,
        characters: int | None = None,
        crf: bool | None = None,
        reader: Literal["recurrent", "mlp"] | None = None,
        dropout: float | None = None,
        scheme: Literal["auto", "bio", "bioes", "io"] | None = None,
        epochs: float | None = None,
        batch: int | None = None,
        rate: float | None = None,
        validation: float | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.cell = cell
        self.hidden = hidden
        self.layers = layers
        self.bidirectional = bidirectional
        self.characters = characters
        self.crf = crf
        self.reader = reader
        self.dropout = dropout
        self.scheme = scheme
        self.epochs = epochs
        self.batch = batch
        self.rate = rate
        self.validation = validation
        self.settings = settings
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from sentences and their tags."""
        config = self._plan()
        check_there(y)
        words, tags = _lists("X", X), _lists("y", y)
        _check_paired(words, tags)
        firsts: dict[str, int] = {}
        for row, sentence in enumerate(tags):
            for tag in sentence:
                firsts.setdefault(tag, row)
        self._learn(config, self._divide(Sentences.of(words, tags), config, kept=sorted({*firsts.values()})))
        self.classes_ = np.array(self.task_.tags)
        return self

    def predict(self, X: Any) -> list[list[str]]:
        """The tags of each sentence."""
        check_is_fitted(self)
        answers = self._answers(Sentences.of(_lists("X", X)))
        return [[self.task_.tags[tag] for tag in answer.tags] for answer in answers]

    def score(self, X: Any, y: Any) -> float:
        """F1 of the spans that tags mark; where they mark none, the share of tags that are right."""
        check_is_fitted(self)
        check_there(y)
        words, tags = _lists("X", X), _lists("y", y)
        _check_paired(words, tags)
        figures = self.task_.assess(self.learner_, self.task_.part(Sentences.of(words, tags)))
        return float(figures[self.task_.chosen_by])


def _lists(name: str, given: Any) -> list[list[str]]:
    """Lists of strings, from lists, arrays or series of such."""
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise ArgumentTypeError.of(name, given, "is no list of sentences", "Give a list of lists of strings")
    found = []
    for row, one in enumerate(given):
        entries = None if isinstance(one, str) or not hasattr(one, "__iter__") else [*one]
        if not entries or not all(isinstance(entry, str) and entry for entry in entries):
            problem = "is not a list of strings that are not empty"
            raise ArgumentTypeError.of(f"{name}[{row}]", one, problem, "Split the sentence, and leave empty ones out")
        found.append([str(entry) for entry in entries])
    if not found:
        raise ShapeError.of(name, given, "has 0 sample(s)", "Give one sentence at least")
    return found


def _check_paired(words: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> None:
    if len(words) != len(tags):
        raise ShapeError.of("y", len(tags), f"lists are not as many as the {len(words)} of `X`", "Pair them")
    for row, (own, said) in enumerate(zip(words, tags, strict=True)):
        if len(own) != len(said):
            raise ShapeError.of(f"y[{row}]", said, f"is not a tag for each of {len(own)} words", "Give one for each")
