"""Typical mistakes in a first RNN, each as a network that makes it: the one that a reader's numbers equal is theirs.

The right one is h_t = tanh(W x_t + U h_{t−1} + b) for x of shape (batch, time, input), W (hidden, input),
U (hidden, hidden), b (hidden,) and h0 (batch, hidden).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Network = Callable[[Array, Array, Array, Array, Array], Array]
Step = Callable[[Array, Array, Array, Array, Array], Array]


class Case(NamedTuple):
    """Inputs and weights of one comparison."""

    x: Array
    W: Array
    U: Array
    b: Array
    h0: Array


class Mistake(NamedTuple):
    """A mistake: what it is, what to change, and a network that makes it."""

    name: str
    remedy: str
    network: Network


def over_time(step: Step) -> Network:
    """A network whose state is what `step` makes of the input and the previous state."""

    def network(x: Array, W: Array, U: Array, b: Array, h0: Array) -> Array:
        h, outputs = h0, []
        for t in range(x.shape[1]):
            h = step(x[:, t], h, W, U, b)
            outputs.append(h)
        return np.stack(outputs, axis=1)

    return network


def right_step(x: Array, h: Array, W: Array, U: Array, b: Array) -> Array:
    """One step as it should be."""
    return np.asarray(np.tanh(x @ W.T + h @ U.T + b))


#: The right network.
reference = over_time(right_step)


def relu_step(x: Array, h: Array, W: Array, U: Array, b: Array) -> Array:
    """relu in place of tanh."""
    return np.maximum(x @ W.T + h @ U.T + b, 0)


def sigmoid_step(x: Array, h: Array, W: Array, U: Array, b: Array) -> Array:
    """sigmoid in place of tanh."""
    return np.asarray(1 / (1 + np.exp(-(x @ W.T + h @ U.T + b))))


def not_carried(x: Array, W: Array, U: Array, b: Array, h0: Array) -> Array:
    """Every step starts from h0."""
    return np.asarray(np.tanh(x @ W.T + (h0 @ U.T)[:, None] + b))


def without_start(x: Array, W: Array, U: Array, b: Array, h0: Array) -> Array:
    """h0 is taken to be zero."""
    return reference(x, W, U, b, np.zeros_like(h0))


def backward_in_time(x: Array, W: Array, U: Array, b: Array, h0: Array) -> Array:
    """The last step is read first, and outputs are in the order of reading."""
    return reference(x[:, ::-1], W, U, b, h0)


def backward_and_turned(x: Array, W: Array, U: Array, b: Array, h0: Array) -> Array:
    """The last step is read first; outputs are put in the order of the input again."""
    return backward_in_time(x, W, U, b, h0)[:, ::-1]


def late_output(x: Array, W: Array, U: Array, b: Array, h0: Array) -> Array:
    """Each output is the state before its step."""
    return np.concatenate([h0[:, None], reference(x, W, U, b, h0)[:, :-1]], axis=1)


def last_everywhere(x: Array, W: Array, U: Array, b: Array, h0: Array) -> Array:
    """All outputs are the last state, as happens if one array is changed in place and appended again."""
    last = reference(x, W, U, b, h0)[:, -1:]
    return np.repeat(last, x.shape[1], axis=1)


def one_state_for_all(x: Array, W: Array, U: Array, b: Array, h0: Array) -> Array:
    """All sequences of the batch share the state of the first."""
    return over_time(lambda x, h, W, U, b: right_step(x, np.broadcast_to(h[:1], h.shape), W, U, b))(x, W, U, b, h0)


def over_the_batch(x: Array, W: Array, U: Array, b: Array, h0: Array) -> Array:
    """The loop goes over the batch in place of time."""
    turned = reference(x.swapaxes(0, 1), W, U, b, np.broadcast_to(h0[:1], (x.shape[1], h0.shape[1])))
    return turned.swapaxes(0, 1)


def previous_input(x: Array, W: Array, U: Array, b: Array, h0: Array) -> Array:
    """Each step reads the input of the step before."""
    return reference(np.concatenate([np.zeros_like(x[:, :1]), x[:, :-1]], axis=1), W, U, b, h0)


#: The mistakes that are recognized, with what to do about each.
MISTAKES: Mapping[str, Mistake] = {
    mistake.name: mistake
    for mistake in (
        Mistake(
            "W is transposed",
            "W is (hidden, input): use x_t @ W.T, or W @ x_t for a column",
            over_time(lambda x, h, W, U, b: right_step(x, h, W.T, U, b) if W.shape[0] == W.shape[1] else h * np.nan),
        ),
        Mistake(
            "U is transposed",
            "Use h @ U.T for rows, or U @ h for a column",
            over_time(lambda x, h, W, U, b: right_step(x, h, W, U.T, b)),
        ),
        Mistake(
            "W and U are both transposed",
            "Use x_t @ W.T + h @ U.T for rows, or W @ x_t + U @ h for columns",
            over_time(lambda x, h, W, U, b: right_step(x, h, W.T, U.T, b) if W.shape[0] == W.shape[1] else h * np.nan),
        ),
        Mistake(
            "W and U are exchanged",
            "W is for the input, U for the previous state",
            over_time(lambda x, h, W, U, b: right_step(x, h, U, W, b) if W.shape[0] == W.shape[1] else h * np.nan),
        ),
        Mistake(
            "the bias is missing", "Add b inside tanh", over_time(lambda x, h, W, U, b: right_step(x, h, W, U, 0 * b))
        ),
        Mistake(
            "the bias is added twice", "Add b once", over_time(lambda x, h, W, U, b: right_step(x, h, W, U, 2 * b))
        ),
        Mistake(
            "the bias is added after tanh",
            "Add b inside tanh",
            over_time(lambda x, h, W, U, b: np.tanh(x @ W.T + h @ U.T) + b),
        ),
        Mistake(
            "the state is not carried", "Assign the new state to the variable that the next step reads", not_carried
        ),
        Mistake("h0 is not used", "Begin with h = h0 in place of zeros", without_start),
        Mistake(
            "tanh is applied before the sum",
            "Sum W x_t + U h + b first, then apply tanh once",
            over_time(lambda x, h, W, U, b: np.tanh(x @ W.T) + np.tanh(h @ U.T + b)),
        ),
        Mistake(
            "tanh is applied to the input's part only",
            "Sum W x_t + U h + b first, then apply tanh once",
            over_time(lambda x, h, W, U, b: np.tanh(x @ W.T + b) + h @ U.T),
        ),
        Mistake(
            "tanh is missing",
            "Apply tanh to the sum",
            over_time(lambda x, h, W, U, b: x @ W.T + h @ U.T + b),
        ),
        Mistake("relu stands in place of tanh", "Use tanh", over_time(relu_step)),
        Mistake("sigmoid stands in place of tanh", "Use tanh", over_time(sigmoid_step)),
        Mistake("the sequence is read backward", "Loop over t = 0, 1, …", backward_in_time),
        Mistake("the sequence is read backward, and outputs turned", "Loop over t = 0, 1, …", backward_and_turned),
        Mistake("each output is the state before its step", "Append the state after computing it", late_output),
        Mistake("all outputs are the last state", "Append a copy, or make a new array at each step", last_everywhere),
        Mistake(
            "all sequences share the first one's state", "Keep one row of the state per sequence", one_state_for_all
        ),
        Mistake("the loop goes over the batch", "x is (batch, time, input): loop over x.shape[1]", over_the_batch),
        Mistake("each step reads the input of the step before", "Read x[:, t] at step t", previous_input),
        Mistake(
            "the previous state is added to the new one",
            "The new state is tanh(…) alone",
            over_time(lambda x, h, W, U, b: right_step(x, h, W, U, b) + h),
        ),
        Mistake(
            "the input is ignored",
            "Add W x_t inside tanh",
            over_time(lambda x, h, W, U, b: right_step(0 * x, h, W, U, b)),
        ),
    )
}


def make_cases(seed: int = 0) -> tuple[Case, ...]:
    """A square case, in which transposed weights have the same shape, and one with the sizes of the document."""
    chance = np.random.default_rng(seed)

    def case(batch: int, steps: int, width: int, hidden: int) -> Case:
        sizes = ((batch, steps, width), (hidden, width), (hidden, hidden), (hidden,), (batch, hidden))
        x, W, U, b, h0 = (chance.standard_normal(size) for size in sizes)
        return Case(x, W / np.sqrt(width), U / np.sqrt(hidden), b / 2, h0 / 2)

    return case(3, 5, 4, 4), case(2, 4, 128, 3)


def diagnose(output: Array, case: Case, tolerance: float = 1e-5) -> Mistake | None:
    """The mistake whose network gives this output; None if no known one does."""
    for mistake in MISTAKES.values():
        expected = mistake.network(*case)
        if expected.shape == output.shape and np.allclose(output, expected, rtol=0, atol=tolerance):
            return mistake
    return None
