"""SequenceTagger: a tag for every word of a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unspool.errors import ArgumentTypeError, ShapeError
from unspool.estimators.base import AnyCell, Estimator
from unspool.estimators.sequences import check_there
from unspool.tasks.tag import Sentences


class SequenceTagger(Estimator):
    """Tag words with a recurrent network: the task `tag` on data in memory.

    The best model, by its score on validation data, is kept. A parameter that is None has the task's default, which is
    the one shown here.

    {parameters}

    Attributes
    ----------
    classes_ : ndarray
        The tags, sorted.
    history_ : list of dict
        The metrics of each evaluation.

    Examples
    --------
    >>> model = SequenceTagger().fit([["play", "jazz"]], [["O", "B-genre"]])
    >>> model.predict([["play", "blues"]])
    [['O', 'B-genre']]
    """

    task = "tag"
    classes_: NDArray[Any]

    def __init__(
        self,
        *,
        cell: AnyCell | list[AnyCell] | None = None,
        hidden: int | None = None,
        layers: int | None = None,
        bidirectional: bool | None = None,
        char_hidden: int | None = None,
        crf: bool | None = None,
        backbone: Literal["recurrent", "mlp"] | None = None,
        dropout: float | None = None,
        scheme: Literal["auto", "bio", "bioes", "io"] | None = None,
        epochs: float | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        validation: float | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.cell = cell
        self.hidden = hidden
        self.layers = layers
        self.bidirectional = bidirectional
        self.char_hidden = char_hidden
        self.crf = crf
        self.backbone = backbone
        self.dropout = dropout
        self.scheme = scheme
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.validation = validation
        self.settings = settings
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Train on sentences and their tags.

        Parameters
        ----------
        X : list of lists of str
            Sentences, each a list of words.
        y : list of lists of str
            A tag for each word.

        Returns
        -------
        self
        """
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
        """Predict the tags of each sentence.

        Parameters
        ----------
        X : list of lists of str
            Sentences.

        Returns
        -------
        list of lists of str
            A tag for each word.
        """
        check_is_fitted(self)
        answers = self._answers(Sentences.of(_lists("X", X)))
        return [[self.task_.tags[tag] for tag in answer.tags] for answer in answers]

    def score(self, X: Any, y: Any) -> float:
        """The F1 score of the spans that tags mark; where they mark none, the fraction of correct tags.

        Parameters
        ----------
        X : list of lists of str
            Sentences.
        y : list of lists of str
            Their tags.

        Returns
        -------
        float
            The score, from 0 to 1.
        """
        check_is_fitted(self)
        check_there(y)
        words, tags = _lists("X", X), _lists("y", y)
        _check_paired(words, tags)
        metrics = self.task_.evaluate_part(self.learner_, self.task_.part(Sentences.of(words, tags)))
        return float(metrics[self.task_.chosen_by])


def _lists(name: str, given: Any) -> list[list[str]]:
    """Lists of strings, from lists, arrays or series of such."""
    if not _is_listlike(given):
        raise ArgumentTypeError.of(name, given, "is not a list of sentences", "Give a list of lists of strings")
    found = [_strings(f"{name}[{row}]", one) for row, one in enumerate(given)]
    if not found:
        raise ShapeError.of(name, given, "has 0 sample(s)", "Give at least one sentence")
    return found


def _strings(name: str, given: Any) -> list[str]:
    entries = [*given] if _is_listlike(given) else []
    if not entries or not all(isinstance(entry, str) and entry for entry in entries):
        problem = "is not a list of strings that are not empty"
        raise ArgumentTypeError.of(name, given, problem, "Split the sentence, and leave empty ones out")
    return [str(entry) for entry in entries]


def _is_listlike(given: Any) -> bool:
    return hasattr(given, "__iter__") and not isinstance(given, str)


def _check_paired(words: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> None:
    if len(words) != len(tags):
        raise ShapeError.of(
            "y", len(tags), f"lists are not as many as the {len(words)} of `X`", "Give one for each sentence"
        )
    for row, (own, given) in enumerate(zip(words, tags, strict=True)):
        if len(own) != len(given):
            problem = f"is not a tag for each of {len(own)} words"
            raise ShapeError.of(f"y[{row}]", given, problem, "Give one for each")
