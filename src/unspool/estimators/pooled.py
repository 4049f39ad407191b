"""What estimators that make one prediction per sequence share: their parameters, and how they read X."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from sklearn.utils.validation import check_is_fitted

from unspool.data.memory import Kind
from unspool.estimators.base import AnyCell, Estimator
from unspool.estimators.sequences import read_new


class PooledEstimator(Estimator):
    """A recurrent network whose output is pooled into one vector per sequence."""

    kind_: Kind

    def __init__(
        self,
        *,
        cell: AnyCell | list[AnyCell] | None = None,
        hidden: int | None = None,
        layers: int | None = None,
        bidirectional: bool | None = None,
        pooling: Literal["attention", "mean", "max", "last"] | None = None,
        backbone: Literal["recurrent", "bag", "fcn", "cnn"] | None = None,
        dropout: float | None = None,
        tokenizer: str | None = None,
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
        self.pooling = pooling
        self.backbone = backbone
        self.dropout = dropout
        self.tokenizer = tokenizer
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.validation = validation
        self.settings = settings
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        # That texts are read too is not in the tags: scikit-learn would expect objects in tables to be left alone.
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def _ask(self, X: Any) -> list[Any]:
        """The task's answer to each sequence."""
        check_is_fitted(self)
        return self._answers(read_new(self, X, self.kind_))
