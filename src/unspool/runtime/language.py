"""LanguagePlayer: tokens in, the next token out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unspool.runtime.arithmetic import apply_linear, log_softmax
from unspool.runtime.embedding import embed
from unspool.runtime.network import Array, Language
from unspool.runtime.player import Player
from unspool.runtime.stack import StackPlayer, States


class LanguagePlayer(Player):
    """P(next token | all before). The state is carried on from call to call.

    Args:
        network: The language model.
        threads: The most threads that a call uses.

    Example:
        logits, state = player.predict(ids, player.initial_state(1))  # ids (time, batch)
    """

    def __init__(self, network: Language, threads: int = 1) -> None:
        self.network, self.stack = network, StackPlayer(network.stack, threads)

    def measure(self, window: tuple[Any, Any], state: States) -> tuple[float, States]:
        """The mean cross-entropy of `(ids, targets)`, each (time, batch), in nats; and the state after them."""
        nats, state = self._surprise(*window, state)
        return float(nats.mean()), state

    def initial_state(self, batch_size: int) -> States:
        """The state before the first token."""
        return self.stack.initial_states(batch_size)

    def predict(self, ids: Any, state: States | None) -> tuple[Array, States]:
        """Logits (batch, tokens) of what follows the last of `ids` (time, batch), and the state; None is the first."""
        output, state = self.stack.run(embed(self.network.embedding, ids), state)
        return self.head(output[-1]), state

    def surprise(self, batch: tuple[Any, Any]) -> NDArray[np.float64]:
        """−log P of every target (time, batch) from the initial state, in nats."""
        ids, targets = batch
        return self._surprise(ids, targets, self.initial_state(np.shape(ids)[1]))[0]

    def head(self, output: Array) -> Array:
        """Logits from the output of the layers."""
        projection = self.network.projection
        return apply_linear(self.network.head, output if projection is None else apply_linear(projection, output))

    def _surprise(self, ids: Any, targets: Any, state: States) -> tuple[NDArray[np.float64], States]:
        output, state = self.stack.run(embed(self.network.embedding, ids), state)
        wanted = np.asarray(targets, np.int64)
        nats = np.empty(wanted.shape)
        for t, step in enumerate(output):  # one step at a time: all logits at once may not fit into memory
            log_p = log_softmax(self.head(step).astype(np.float64))
            nats[t] = -np.take_along_axis(log_p, wanted[t][:, None], -1)[:, 0]
        return nats, state
