"""What the estimators that say one thing of a whole sequence share: their parameters, and how they read X."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sklearn.utils.validation import check_is_fitted

from unspool.estimators.base import Estimator
from unspool.estimators.sequences import Kind, read_new


class PooledEstimator(Estimator):
    """A recurrent network whose sequence becomes one vector."""

    kind_: Kind

    def __init__(
        self,
        *,
        cell: str | None = None,
        hidden: int | None = None,
        layers: int | None = None,
        bidirectional: bool | None = None,
        pooling: Literal["attention", "mean", "max", "last"] | None = None,
        reader: Literal["recurrent", "bag", "fcn", "cnn"] | None = None,
        dropout: float | None = None,
        tokens: str | None = None,
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
        self.pooling = pooling
        self.reader = reader
        self.dropout = dropout
        self.tokens = tokens
        self.epochs = epochs
        self.batch = batch
        self.rate = rate
        self.validation = validation
        self.settings = settings
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        # That texts are read too is not told: scikit-learn takes it for a promise to leave objects in tables alone.
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def _ask(self, X: Any) -> list[Any]:
        """The task's answer to each sequence."""
        check_is_fitted(self)
        return self._answers(read_new(self, X, self.kind_))
