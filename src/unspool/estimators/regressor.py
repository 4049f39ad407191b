"""SequenceRegressor: one or several numbers of a text, or of a sequence of numbers."""

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
    """Numbers of sequences by a recurrent network: the task `regress` on data in memory.

        SequenceRegressor(tokens="smiles").fit(molecules, solubilities).predict(["CCO"])

    `X` is texts, a list of arrays (steps, features), an array (samples, steps, features), or a table whose rows are
    sequences of one feature; `y` is (samples,) or (samples, targets). A parameter that is None is as `unspool train
    --task regress` has it. The best model is chosen by its error on `validation`, a share of the examples. `settings`
    are further settings of the task by name, such as {"enumerate": 10}.
    """

    task = "regress"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from sequences and their numbers."""
        config = self._plan()
        check_there(y)
        raw, self.kind_ = read_training(self, X)
        targets = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(raw.names, targets)
        self.one_target_ = targets.ndim == 1
        rows = targets.reshape(len(targets), -1)
        raw = replace(raw, answers=[tuple(row) for row in rows.tolist()])
        return self._learn(config, self._divide(raw, config, kept=_extremes(rows)))

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The numbers of each sequence, in the shape of the `y` that was learned from."""
        answers = np.stack(self._ask(X))
        return answers[:, 0] if self.one_target_ else answers


def _extremes(targets: NDArray[np.float64]) -> NDArray[np.intp]:
    """Where each target is least and greatest: learned from, so that no target is a constant to the model."""
    return np.concatenate([targets.argmin(0), targets.argmax(0)])
