"""SequenceRegressor: one or several numbers from a text, or from a sequence of numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_array

from unspool.estimators.pooled import PooledEstimator
from unspool.estimators.sequences import check_there, read_training


class SequenceRegressor(RegressorMixin, PooledEstimator):  # type: ignore[misc]
    """Predict numbers from sequences with a recurrent network: the task `regress` on data in memory.

    The best model, by its error on validation data, is kept. A parameter that is None has the task's default, which is
    the one shown here.

    {parameters}

    Attributes
    ----------
    history_ : list of dict
        The metrics of each evaluation.
    n_features_in_ : int
        Features per step of the sequences seen in `fit`; columns, if X was a table.

    Examples
    --------
    >>> model = SequenceRegressor(tokenizer="smiles", settings={"augment_smiles": 10})
    >>> model.fit(molecules, solubilities).predict(["CCO"])
    array([0.62])
    """

    task = "regress"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train on sequences and their numbers.

        Parameters
        ----------
        X : list of str, list of arrays (steps, features), array (samples, steps, features), or table
            Sequences. The rows of a table are sequences of one feature.
        y : array-like (samples,) or (samples, targets)
            Their numbers.

        Returns
        -------
        self
        """
        config = self._plan()
        check_there(y)
        raw, self.kind_ = read_training(self, X)
        targets = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(raw.names, targets)
        self.one_target_ = targets.ndim == 1
        rows = targets.reshape(len(targets), -1)
        raw = replace(raw, targets=[tuple(row) for row in rows.tolist()])
        return self._learn(config, self._divide(raw, config, kept=_extremes(rows)))

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predict the numbers of each sequence.

        Parameters
        ----------
        X : as in `fit`
            Sequences.

        Returns
        -------
        ndarray (samples,) or (samples, targets)
            Numbers, in the form of `y` in `fit`.
        """
        answers = np.stack(self._ask(X))
        return answers[:, 0] if self.one_target_ else answers


def _extremes(targets: NDArray[np.float64]) -> NDArray[np.intp]:
    """Where each target is least and greatest: for training, so that no target is constant there."""
    return np.concatenate([targets.argmin(0), targets.argmax(0)])
