"""Learning rules: how a batch becomes gradients, by backpropagation through time or from local errors of each layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from unspool.errors import ArgumentError
from unspool.learning.contract import Apart, Learner, Outcome
from unspool.learning.layer_dropout import LayerDropout, measure_rates
from unspool.learning.penalties import objective
from unspool.learning.predictive_coding import Local, PredictiveCoding, alignment
from unspool.tasks.contract import Batches

if TYPE_CHECKING:
    from unspool.settings.training import Training


class Backpropagation:
    """Gradients through all layers, back to the first step of the batch."""

    def __init__(self, learner: Learner, settings: Training) -> None:
        self.learner, self.settings = learner, settings

    def learn(self, model: nn.Module, batch: Any, state: Any, teacher_forcing: float, weight: float) -> Outcome:
        """Add the gradients of a batch, times `weight`, to `.grad`.

        Args:
            model: The learner, or what wraps it where several processes train it.
            batch: An entry of the task's batches.
            state: The carried state.
            teacher_forcing: The probability that a step's input is the target.
            weight: 1 / the number of batches that make an update.
        """
        outcome: Outcome = model(batch, state, teacher_forcing)
        (weight * objective(outcome, self.settings)).backward()
        return outcome

    def measure(self, batches: Batches, number: int, state: Any) -> dict[str, float]:
        """Metrics of the learning itself, on the next batch; dropout rates by layer are set here."""
        if not any(isinstance(part, LayerDropout) for part in self.learner.modules()):
            return {}
        return measure_rates(self.learner, batches[number], state)


class LocalLearning(Backpropagation):
    """Gradients by predictive coding: no graph goes from layer to layer, or from step to step."""

    def __init__(self, learner: Learner, settings: Training, batches: Batches) -> None:
        super().__init__(learner, settings)
        PredictiveCoding(learner.take_apart(batches[0]).layers)  # what cannot be taken apart is refused before training

    def learn(self, model: nn.Module, batch: Any, state: Any, teacher_forcing: float, weight: float) -> Outcome:  # noqa: ARG002
        _, outcome = self._local(self.learner.take_apart(batch), weight)
        return outcome

    def measure(self, batches: Batches, number: int, state: Any) -> dict[str, float]:  # noqa: ARG002
        """The cosine between these gradients of the layers and those of backpropagation."""
        was = self.learner.training
        self.learner.eval()
        apart = self.learner.take_apart(batches[number])
        local, _ = self._local(apart)
        output = apart.x.detach()
        for layer in apart.layers:
            output, _ = layer(output, lengths=apart.lengths)
        named = [dict(layer.named_parameters()) for layer in apart.layers]
        loss = objective(apart.outcome(output), self.settings)
        exact = torch.autograd.grad(loss, [one for layer in named for one in layer.values()], materialize_grads=True)
        rest = iter(exact)
        other = [{name: next(rest) for name in layer} for layer in named]
        self.learner.zero_grad(set_to_none=True)
        self.learner.train(was)
        return {"alignment": alignment(local.gradients, other).together}

    def _local(self, apart: Apart, weight: float = 1.0) -> tuple[Local, Outcome]:
        outcomes: list[Outcome] = []

        def top_loss(output: Tensor) -> Tensor:
            outcomes.append(apart.outcome(output))
            return weight * objective(outcomes[-1], self.settings)

        local = PredictiveCoding(apart.layers).gradients(apart.x, top_loss, lengths=apart.lengths)
        return local, outcomes[0]  # of the forward pass


def make_rule(learner: Learner, settings: Training, batches: Batches, processes: int = 1) -> Backpropagation:
    """The rule of the settings."""
    if settings.learning_rule == "bptt":
        return Backpropagation(learner, settings)
    if processes > 1:
        raise ArgumentError.of(
            "learning_rule", settings.learning_rule, f"is not for {processes} processes", "Leave `nproc` out"
        )
    return LocalLearning(learner, settings, batches)
