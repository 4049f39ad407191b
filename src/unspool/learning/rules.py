"""Learning rules: how a batch becomes gradients, by back-propagation through time or by each layer's own errors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unspool.errors import ArgumentError
from unspool.learning.contract import Apart, Batches, Learner, Outcome
from unspool.learning.layer_dropout import LayerDropout, measure_rates
from unspool.learning.penalties import with_penalties
from unspool.learning.predictive_coding import Local, PredictiveCoding, alignment
from unspool.learning.settings import Training


class BackPropagation:
    """Gradients through all layers, back to the window's first step."""

    def __init__(self, learner: Learner, settings: Training) -> None:
        self.learner, self.settings = learner, settings

    def learn(self, model: nn.Module, batch: Any, carried: Any, truth: float, share: float) -> Outcome:
        """Add `share` of a batch's gradients to `.grad`; `model` is the learner as its processes share it."""
        outcome: Outcome = model(batch, carried, truth)
        (share * with_penalties(outcome, self.settings)).backward()
        return outcome

    def measure(self, batches: Batches, number: int, carried: Any) -> dict[str, float]:
        """Figures on the learning itself, by the batch that comes next; rates of dropout are set anew here."""
        if not any(isinstance(part, LayerDropout) for part in self.learner.modules()):
            return {}
        return measure_rates(self.learner, batches[number], carried)


class LocalLearning(BackPropagation):
    """Gradients by predictive coding: no graph goes from a layer to the next, or from a step to another."""

    def __init__(self, learner: Learner, settings: Training, batches: Batches) -> None:
        super().__init__(learner, settings)
        PredictiveCoding(learner.take_apart(batches[0]).layers)  # what cannot be taken apart is refused before training

    def learn(self, model: nn.Module, batch: Any, carried: Any, truth: float, share: float) -> Outcome:  # noqa: ARG002
        _, outcome = self._local(self.learner.take_apart(batch), share)
        return outcome

    def measure(self, batches: Batches, number: int, carried: Any) -> dict[str, float]:  # noqa: ARG002
        """The cosine between these gradients of the layers and back-propagation's; there is no dropout to measure."""
        was = self.learner.training
        self.learner.eval()
        apart = self.learner.take_apart(batches[number])
        local, _ = self._local(apart)
        output = apart.x.detach()
        for layer in apart.layers:
            output, _ = layer(output, lengths=apart.lengths)
        named = [dict(layer.named_parameters()) for layer in apart.layers]
        loss = with_penalties(apart.judge(output), self.settings)
        exact = torch.autograd.grad(loss, [one for layer in named for one in layer.values()], materialize_grads=True)
        rest = iter(exact)
        other = [{name: next(rest) for name in layer} for layer in named]
        self.learner.zero_grad(set_to_none=True)
        self.learner.train(was)
        return {"alignment": alignment(local.gradients, other).together}

    def _local(self, apart: Apart, share: float = 1.0) -> tuple[Local, Outcome]:
        outcomes: list[Outcome] = []

        def top_loss(output: Tensor) -> Tensor:
            outcomes.append(apart.judge(output))
            return share * with_penalties(outcomes[-1], self.settings)

        local = PredictiveCoding(apart.layers).gradients(apart.x, top_loss, lengths=apart.lengths)
        return local, outcomes[0]  # of the forward pass


def make_rule(learner: Learner, settings: Training, batches: Batches, processes: int = 1) -> BackPropagation:
    """The rule that the settings name."""
    if settings.learn == "bptt":
        return BackPropagation(learner, settings)
    if processes > 1:
        raise ArgumentError.of("learn", settings.learn, f"is not for {processes} processes", "Leave --nproc out")
    return LocalLearning(learner, settings, batches)
