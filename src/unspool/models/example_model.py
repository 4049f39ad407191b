"""Models of examples: each scores a batch of sequences, and turns scores into a loss and into predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from unspool.learning.contract import Learner, Outcome
from unspool.learning.device import to_device_of
from unspool.models.backbone_model import with_lower
from unspool.tasks.batch import Batch
from unspool.tasks.contract import Inferred


class Scores(NamedTuple):
    """The output of a model for a batch."""

    levels: list[Any]  # of the layers that have heads, from the lowest up; the last one is the prediction
    output: Tensor | None = None  # of the recurrent layers, (time, batch, width)
    extra: Tensor | None = None  # a penalty of the model's own


class ExampleLearner(Learner):
    """A model of examples: how it scores them, the loss of scores, and what they predict."""

    #: Weights of the auxiliary losses, one for each level below the last.
    supervision: Sequence[float] = ()

    @abstractmethod
    def score(self, batch: Batch) -> Scores:
        """Run the model on a batch."""

    @abstractmethod
    def summed_loss(self, scores: Any, batch: Batch) -> Tensor:
        """The loss, summed over the units of the batch."""

    @abstractmethod
    def predictions(self, scores: Any, batch: Batch) -> Sequence[Any]:
        """The prediction for each example."""

    def infer(self, batch: Batch) -> Inferred:
        """The loss of a batch of arrays, and the prediction for each of its examples."""
        with self.evaluating():
            tensors = to_device_of(self, batch)
            scores = self.score(tensors).levels[-1]
            loss = None if batch.targets is None else float(self.summed_loss(scores, tensors))
            return Inferred(loss, self.predictions(scores, tensors))

    def forward(self, batch: Batch, state: Any = None, teacher_forcing: float = 1.0) -> Outcome:  # noqa: ARG002
        return self.outcome(self.score(batch), batch)

    def outcome(self, found: Scores, batch: Batch) -> Outcome:
        """L = L_top + Σ_ℓ λ_ℓ L_ℓ; the loss that is reported is that of the top layer."""
        *below, loss = (self.summed_loss(scores, batch) / batch.units for scores in found.levels)
        own = None if found.extra is None else found.extra * batch.penalty_share()
        extra = with_lower(own, self.supervision, below)
        return Outcome(loss, round(batch.units), None, found.output, batch.lengths, extra, batch.steps)

    def initial_state(self, batch_size: int) -> Any:  # noqa: ARG002
        """None: every sequence starts from the initial state of its layers."""
        return None
