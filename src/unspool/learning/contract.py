"""What a model that is trained must offer: the loss of a batch, and its state. Tasks have their own contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from unspool.errors import ArgumentError


class Outcome(NamedTuple):
    """The result of a forward pass in training."""

    loss: Tensor  # mean over the batch's units
    units: int  # how many
    state: Any  # hidden state for the next batch, nested tensors that are not yet detached
    output: Tensor | None  # of the recurrent layers, (time, batch, width), for penalties
    lengths: Tensor | None = None  # of the sequences in the output; None where all steps count
    extra: Tensor | None = None  # what training adds to the loss: auxiliary heads, the model's own penalties
    steps: float | None = None  # where processes share a batch of different lengths: the steps of all / processes


class Apart(NamedTuple):
    """A learner and a batch taken apart, for rules that learn layer by layer."""

    layers: Sequence[nn.Module]  # recurrent, from the lowest up
    x: Tensor  # the input of the lowest
    lengths: Tensor | None  # of its sequences
    outcome: Callable[[Tensor], Outcome]  # from the output of the top layer


class Learner(nn.Module, ABC):
    """A model that can be trained."""

    @abstractmethod
    def forward(self, batch: Any, state: Any, teacher_forcing: float = 1.0) -> Outcome:
        """The loss of a batch.

        Args:
            batch: An entry of the task's `Batches`, as tensors on the device of the model.
            state: The state after the batch before it, or `initial_state`.
            teacher_forcing: The fraction of steps whose input is the target, not the model's own prediction.
        """

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """A context without gradients and dropout, after which the model is in the mode that it was in before."""
        was_training = self.training
        if was_training:
            self.eval()
        try:
            # not inference_mode: a layer that caches such tensors could not be trained afterwards
            with torch.no_grad():
                yield
        finally:
            if was_training:
                self.train()

    @abstractmethod
    def initial_state(self, batch_size: int) -> Any:
        """The state before the first batch of an epoch: None, or nested tensors."""

    def take_apart(self, batch: Any) -> Apart:  # noqa: ARG002
        """The layers one by one, and a batch as they read it; refused where a model has more than layers."""
        problem = f"is not for a {type(self).__name__}"
        raise ArgumentError.of("learning_rule", "predictive-coding", problem, "Use `learning_rule='bptt'`")

    def token_embedding(self) -> nn.Embedding | None:
        """The embedding of the tokens that `Task.embedded_tokens` lists; None if there is none."""
        return None

    def surprise(self, batch: Any) -> NDArray[np.float64] | None:  # noqa: ARG002
        """−log P of each target (time, batch), in nats; None for models that do not predict step by step."""
        return None

    def last_surprise(self, batch: Any) -> Tensor | None:  # noqa: ARG002
        """−log P of the last target of the first sequence, differentiable; None as for `surprise`."""
        return None
