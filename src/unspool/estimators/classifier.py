"""SequenceClassifier: the class of a text, or of a sequence of numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array

from unspool.data.problems import warn_unseen
from unspool.errors import DataError
from unspool.estimators.pooled import PooledEstimator
from unspool.estimators.sequences import check_there, read_training


class SequenceClassifier(ClassifierMixin, PooledEstimator):  # type: ignore[misc]
    """Classify sequences with a recurrent network: the task `classify` on data in memory.

    The best model, by its accuracy on validation data, is kept. A parameter that is None has the task's default, which
    is the one shown here; of a model of texts, some defaults follow from the size and kind of the data.

    {parameters}

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    history_ : list of dict
        The metrics of each evaluation.
    n_features_in_ : int
        Features per step of the sequences seen in `fit`; columns, if X was a table.

    Examples
    --------
    >>> model = SequenceClassifier(hidden=64).fit(texts, labels)
    >>> model.predict(["播放周杰伦的《稻香》"])
    array(['music'], dtype='<U7')
    """

    task = "classify"
    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any) -> Self:
        """Train on sequences and their classes.

        Parameters
        ----------
        X : list of str, list of arrays (steps, features), array (samples, steps, features), or table
            Sequences. The rows of a table are sequences of one feature.
        y : array-like (samples,)
            Their classes.

        Returns
        -------
        self
        """
        config = self._plan()
        check_there(y)
        raw, self.kind_ = read_training(self, X)
        labels = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"), warn=True)
        check_consistent_length(raw.names, labels)
        check_classification_targets(labels)
        self.classes_, first, numbers = np.unique(labels, return_index=True, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"all of `y` is one class, {self.classes_[0]!r}. Give examples of at least two classes.")
        raw = replace(raw, targets=[(str(self.classes_[number]),) for number in numbers])
        return self._learn(config, self._divide(raw, config, kept=first))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the most probable class of each sequence.

        Parameters
        ----------
        X : as in `fit`
            Sequences.

        Returns
        -------
        ndarray (samples,)
            Classes.
        """
        probabilities = self.predict_proba(X)  # first: without `classes_` it has not been fitted
        found: NDArray[Any] = self.classes_[probabilities.argmax(1)]
        return found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The fraction of sequences whose class is predicted. A class that `fit` never saw counts as wrong.

        Parameters
        ----------
        X : as in `fit`
            Sequences.
        y : array-like (samples,)
            Their classes.
        sample_weight : array-like (samples,), default=None
            Weights of the sequences.

        Returns
        -------
        float
            The accuracy, from 0 to 1.
        """
        found = float(super().score(X, y, sample_weight))  # first: it checks X and y
        labels = np.ravel(np.asarray(y))
        unseen = np.flatnonzero(~np.isin(labels, self.classes_))
        if len(unseen):
            names = [str(label) for label in labels[unseen]]
            warn_unseen("class", "samples", len(labels), names, f"y[{unseen[0]}]")
        return found

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict the probability of each class.

        Parameters
        ----------
        X : as in `fit`
            Sequences.

        Returns
        -------
        ndarray (samples, classes)
            Probabilities, in the order of `classes_`.
        """
        answers = np.stack(self._ask(X))
        place = {label: number for number, label in enumerate(self.task_.labels)}
        return answers[:, [place[str(label)] for label in self.classes_]]
