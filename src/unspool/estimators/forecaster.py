"""Forecaster: the next steps of series of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from unspool.data.series import Floats, Series
from unspool.data.times import NUMBER, TimeAxis
from unspool.errors import ArgumentTypeError, DTypeError, ShapeError
from unspool.estimators.base import Estimator

#: Steps of series in memory are counted.
COUNTED = TimeAxis(NUMBER, "fixed", 1)


class Forecaster(Estimator):
    """Quantiles of what comes next, by a recurrent network: the task `forecast` on data in memory.

        Forecaster(horizon=12, season=12).fit(monthly).predict()

    `X` is one series, (steps,) or (steps, targets), or a list of such. A parameter that is None is as `unspool train
    --task forecast` has it. The best model is chosen on `validation`, the last steps of each series or their share.
    `settings` are further settings of the task by name, such as {"weight_decay": 0.01}.
    """

    task = "forecast"
    may_skip_validation = False

    def __init__(
        self,
        *,
        horizon: int | None = None,
        season: int | None = None,
        look_back: int | None = None,
        quantiles: tuple[float, ...] | None = None,
        relative: Literal["season", "last", "none"] | None = None,
        cell: str | None = None,
        hidden: int | None = None,
        layers: int | None = None,
        bidirectional: bool | None = None,
        reader: Literal["recurrent", "bag", "fcn", "cnn"] | None = None,
        dropout: float | None = None,
        steps: int | None = None,
        batch: int | None = None,
        rate: float | None = None,
        validation: float | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.horizon = horizon
        self.season = season
        self.look_back = look_back
        self.quantiles = quantiles
        self.relative = relative
        self.cell = cell
        self.hidden = hidden
        self.layers = layers
        self.bidirectional = bidirectional
        self.reader = reader
        self.dropout = dropout
        self.steps = steps
        self.batch = batch
        self.rate = rate
        self.validation = validation
        self.settings = settings
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: None = None) -> Self:  # noqa: ARG002
        """Learn from series; `y` is there for scikit-learn's sake."""
        several, arrays = _arrays(X)
        width = arrays[0].reshape(len(arrays[0]), -1).shape[1]
        names = ("value",) if width == 1 else tuple(f"value {place}" for place in range(1, width + 1))
        self._learn(self._plan(targets=names), _series(arrays))
        self.several_ = several
        self.past_ = [one[-self.task_.terms.look_back :] for one in arrays]
        return self

    def predict(self, X: Any = None) -> Any:
        """The medians of the next `horizon` steps, in the form of X: after its end, or after what was learned from.

        `X` is the series that were learned from, in their order, at a later time.
        """
        found = self.predict_quantiles(X)
        middle = self.config_.data.quantiles.index(0.5)
        return [one[..., middle] for one in found] if self.several_ else found[..., middle]

    def predict_quantiles(self, X: Any = None) -> Any:
        """As `predict`, with all the quantiles along one axis more, the last."""
        check_is_fitted(self)
        arrays = self.past_ if X is None else self._seen(X)
        part = self.task_.part(_series(arrays), answers=False)
        answers = self.task_.ask(self.learner_, part, np.arange(len(arrays)))[1]
        found = [
            part.unscale(row, answer)[:, 0] if arrays[row].ndim == 1 else part.unscale(row, answer)
            for row, answer in enumerate(answers)
        ]
        return found if self.several_ else found[0]

    def score(self, X: Any, y: None = None) -> float:  # noqa: ARG002
        """1 − MASE of forecasts from every step of X that has enough before and after it; above 0 beats last season."""
        check_is_fitted(self)
        part = self.task_.part(_series(self._seen(X)))
        return 1.0 - float(self.task_.assess(self.learner_, part)["MASE"])

    def _seen(self, X: Any) -> list[Floats]:
        several, arrays = _arrays(X)
        if several != self.several_ or len(arrays) != len(self.past_):
            problem = f"is {len(arrays)} series, and the model was fitted on {len(self.past_)}"
            raise ShapeError.of("X", X, problem, "Give the same ones, in their order, in a list if they were in one")
        return arrays


def _arrays(X: Any) -> tuple[bool, list[Floats]]:
    """Whether X is a list of series, and the arrays of them."""
    several = isinstance(X, list | tuple) and len(X) > 0 and np.ndim(X[0]) > 0
    return several, [_array(one, f"X[{row}]" if several else "X") for row, one in enumerate(X if several else [X])]


def _array(given: Any, name: str) -> Floats:
    try:
        array: NDArray[Any] = np.asarray(given)
    except (ValueError, TypeError) as error:
        raise ArgumentTypeError.of(name, given, f"is no array ({error})", "Give an array (steps,)") from error
    if array.dtype.kind not in "biuf":
        raise DTypeError.of(name, array.dtype, "does not hold numbers", "Give an array (steps,) of numbers")
    if array.ndim not in (1, 2) or len(array) < 2:
        raise ShapeError.of(name, array.shape, "is not (steps,) or (steps, targets)", "Give two steps at least")
    return array.astype(np.float64)


def _series(arrays: list[Floats]) -> list[Series]:
    return [
        Series(f"X[{row}]", COUNTED, np.arange(len(one)), one.reshape(len(one), -1), *(np.empty((len(one), 0)),) * 2)
        for row, one in enumerate(arrays)
    ]
