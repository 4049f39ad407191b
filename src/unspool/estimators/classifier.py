"""SequenceClassifier: which class a text, or a sequence of numbers, is of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array

from unspool.errors import DataError
from unspool.estimators.pooled import PooledEstimator
from unspool.estimators.sequences import check_there, read_training


class SequenceClassifier(ClassifierMixin, PooledEstimator):  # type: ignore[misc]
    """Classes of sequences by a recurrent network: the task `classify` on data in memory.

        SequenceClassifier(hidden=64).fit(texts, labels).predict(["播放周杰伦的《稻香》"])

    `X` is texts, a list of arrays (steps, features), an array (samples, steps, features), or a table whose rows are
    sequences of one feature. A parameter that is None is as `unspool train --task classify` has it. The best model is
    chosen by its accuracy on `validation`, a share of the examples. `settings` are further settings of the task by
    name, such as {"weight_decay": 0.01}.
    """

    task = "classify"
    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from sequences and their classes."""
        config = self._plan()
        check_there(y)
        raw, self.kind_ = read_training(self, X)
        labels = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"), warn=True)
        check_consistent_length(raw.names, labels)
        check_classification_targets(labels)
        self.classes_, first, numbers = np.unique(labels, return_index=True, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"all of `y` is one class, {self.classes_[0]!r}. Give examples of two classes at least.")
        raw = replace(raw, answers=[(str(self.classes_[number]),) for number in numbers])
        return self._learn(config, self._divide(raw, config, kept=first))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each sequence."""
        probabilities = self.predict_proba(X)  # first, as an estimator without `classes_` has not been fitted
        found: NDArray[Any] = self.classes_[probabilities.argmax(1)]
        return found

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class (samples, classes), in the order of `classes_`."""
        answers = np.stack(self._ask(X))
        place = {label: number for number, label in enumerate(self.task_.labels)}
        return answers[:, [place[str(label)] for label in self.classes_]]
