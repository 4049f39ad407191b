"""Models of examples: each scores a batch of sequences, and turns scores into a loss and into predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from unspool.learning.contract import Learner, Outcome
from unspool.models.backbone_model import with_lower

#: The target of an example whose label training never saw. It is the number that torch's losses ignore.
UNSEEN = -100


class Batch(NamedTuple):
    """Some examples, padded."""

    inputs: Any  # what the model reads, time first
    lengths: Tensor  # of each example
    targets: Any  # None where they are not known
    units: float  # by which a sum of losses is divided: where processes share a batch, its units / processes
    steps: float | None = None  # where processes share a batch: its steps / processes

    def penalty_share(self) -> float:
        """How much a mean over the steps of these examples counts, so that that of all processes is over all steps."""
        return 1.0 if self.steps is None else float(self.lengths.sum()) / self.steps


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
