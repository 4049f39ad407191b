"""Forecaster: the next steps of series of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unspool.data.memory import count_steps, read_arrays
from unspool.data.series import Floats, Series
from unspool.errors import ShapeError
from unspool.estimators.base import AnyCell, Estimator


class Forecaster(Estimator):
    """Forecast series with a recurrent network: the task `forecast` on data in memory.

    The best model, by its loss on the last steps of each series, is kept. A parameter that is None has the task's
    default, which is the one shown here.

    {parameters}

    Attributes
    ----------
    history_ : list of dict
        The metrics of each evaluation.

    Examples
    --------
    >>> model = Forecaster(horizon=12, season=12).fit(monthly)
    >>> model.predict().shape
    (12,)
    """

    task = "forecast"
    may_skip_validation = False
    notes: ClassVar[Mapping[str, str]] = {}

    def __init__(
        self,
        *,
        horizon: int | None = None,
        season: int | None = None,
        lookback: int | None = None,
        quantiles: tuple[float, ...] | None = None,
        relative_to: Literal["season", "last", "none"] | None = None,
        cell: AnyCell | list[AnyCell] | None = None,
        hidden: int | None = None,
        layers: int | None = None,
        bidirectional: bool | None = None,
        backbone: Literal["recurrent", "bag", "fcn", "cnn"] | None = None,
        dropout: float | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        validation: float | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.horizon = horizon
        self.season = season
        self.lookback = lookback
        self.quantiles = quantiles
        self.relative_to = relative_to
        self.cell = cell
        self.hidden = hidden
        self.layers = layers
        self.bidirectional = bidirectional
        self.backbone = backbone
        self.dropout = dropout
        self.steps = steps
        self.batch_size = batch_size
        self.lr = lr
        self.validation = validation
        self.settings = settings
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: None = None) -> Self:  # noqa: ARG002
        """Train on series.

        Parameters
        ----------
        X : array (steps,) or (steps, targets), or a list of such
            One series, or several.
        y : None
            Ignored; scikit-learn passes it.

        Returns
        -------
        self
        """
        several, arrays = read_arrays(X)
        width = arrays[0].reshape(len(arrays[0]), -1).shape[1]
        names = ("value",) if width == 1 else tuple(f"value {place}" for place in range(1, width + 1))
        self._learn(self._plan(target=names), _series(arrays))
        self.several_ = several
        self.past_ = [one[-self.task_.terms.lookback :] for one in arrays]
        return self

    def predict(self, X: Any = None) -> Any:
        """Forecast the medians of the next `horizon` steps.

        Parameters
        ----------
        X : as in `fit`, optional
            The same series, in the same order, up to a later time; by default as they were in `fit`.

        Returns
        -------
        array (horizon,) or (horizon, targets), or a list of such
            Forecasts of the steps after the end of X, in the form of X.
        """
        found = self.predict_quantiles(X)
        middle = self.config_.data.quantiles.index(0.5)
        return [one[..., middle] for one in found] if self.several_ else found[..., middle]

    def predict_quantiles(self, X: Any = None) -> Any:
        """Forecast all quantiles of the next `horizon` steps.

        Parameters
        ----------
        X : as in `predict`
            The series.

        Returns
        -------
        array (horizon, quantiles) or (horizon, targets, quantiles), or a list of such
            The quantiles of the setting `quantiles`, in ascending order.
        """
        check_is_fitted(self)
        arrays = self.past_ if X is None else self._seen(X)
        part = self.task_.part(_series(arrays), targets=False)
        answers = self.task_.infer(self.learner_, part, np.arange(len(arrays)))[1]
        found = [
            part.unscale(row, answer)[:, 0] if arrays[row].ndim == 1 else part.unscale(row, answer)
            for row, answer in enumerate(answers)
        ]
        return found if self.several_ else found[0]

    def score(self, X: Any, y: None = None) -> float:  # noqa: ARG002
        """1 − MASE of forecasts from every step of X that has enough steps before and after it.

        Parameters
        ----------
        X : as in `predict`
            The series.
        y : None
            Ignored.

        Returns
        -------
        float
            Above 0: better than repeating the last season.
        """
        check_is_fitted(self)
        part = self.task_.part(_series(self._seen(X)))
        return 1.0 - float(self.task_.evaluate_part(self.learner_, part)["MASE"])

    def _seen(self, X: Any) -> list[Floats]:
        several, arrays = read_arrays(X)
        if several != self.several_ or len(arrays) != len(self.past_):
            problem = f"is {len(arrays)} series, and the model was fitted on {len(self.past_)}"
            raise ShapeError.of("X", X, problem, "Give the same ones, in their order, in a list if they were in one")
        return arrays


def _series(arrays: list[Floats]) -> list[Series]:
    return [count_steps(f"X[{row}]", one) for row, one in enumerate(arrays)]
