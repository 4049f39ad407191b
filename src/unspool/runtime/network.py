"""Networks as data: the parts that a trained model consists of, with NumPy arrays for weights.

`network.json` in a run folder holds the same parts with the names of tensors in place of arrays, and
`unspool.runtime.read.read_network` makes them. Everything that plays a model or exports it starts here. Only what
inference needs is kept: there is no dropout, and there are no heads of lower layers.

Letters: T steps, B sequences of a batch, x (T, B, input_size) the input of a layer. y = Linear(x) is x Wᵀ + b. Whatever
lies beyond the length of a sequence changes nothing: outputs are zero there, and states stay as they were.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from numpy.typing import NDArray

from unspool.cells.equations import Equations

Array = NDArray[Any]

#: The version of `network.json`.
FORMAT = 1

#: What a pooling may be, and what makes probabilities of a pooled model's scores.
POOLINGS = ("last", "mean", "max", "attention")
OUTPUTS = ("softmax", "sigmoid", "none")


@dataclass(frozen=True, eq=False)
class Recurrence:
    """One cell over time: states_t = step(x_t, states_{t−1}), and the output is the first state at every step.

    Attributes:
        equations: The step. Zoneout is part of it: p·old + (1 − p)·new.
        input_size: The width of x.
        hidden_size: The number of units.
        reverse: Whether it runs from the last step of each sequence to its first.
        parameters: By their names in the equations, and of the shapes `equations.shapes(input_size, hidden_size)`.
        initial: The states before the first step, one vector per state; None if they are zero.
    """

    equations: Equations
    input_size: int
    hidden_size: int
    reverse: bool
    parameters: Mapping[str, Array]
    initial: tuple[Array, ...] | None

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The width of every state."""
        equations = self.equations
        return tuple(equations.size(width, self.input_size, self.hidden_size) for width in equations.states.values())

    @property
    def output_size(self) -> int:
        """The width of the output."""
        return self.state_sizes[0]


@dataclass(frozen=True, eq=False)
class Layer:
    """One recurrence, or one ahead and one back whose outputs stand side by side.

    With `residual`, what the layer reads is added to its output.

    Attributes:
        directions: (ahead,) or (ahead, back).
        residual: Whether there is this connection; what is read is as wide as the output.
    """

    directions: tuple[Recurrence, ...]
    residual: bool

    @property
    def input_size(self) -> int:
        """The width of the input."""
        return self.directions[0].input_size

    @property
    def output_size(self) -> int:
        """The width of the output."""
        return sum(direction.output_size for direction in self.directions)


@dataclass(frozen=True, eq=False)
class Stack:
    """Layers, each over the output of the one below.

    The output is that of the top layer. With `skip`, the lowest layer reads x = h_0, and layer ℓ above it
    [h_{ℓ−2}; h_{ℓ−1}], the outputs of the two below it. With a `delay` of d, every sequence is followed by d steps of
    zeros, in which the layers continue, and the output for step t is that at step t + d.

    Attributes:
        layers: From the lowest up.
        skip: Whether there are connections around layers.
        delay: Steps that are read ahead of the one that the output is for.
    """

    layers: tuple[Layer, ...]
    skip: bool
    delay: int

    @property
    def input_size(self) -> int:
        """The width of the input."""
        return self.layers[0].input_size

    @property
    def output_size(self) -> int:
        """The width of the output."""
        return self.layers[-1].output_size


@dataclass(frozen=True, eq=False)
class Linear:
    """y = x Wᵀ + b with W (out, in) and b (out,); None is no b."""

    weight: Array
    bias: Array | None


@dataclass(frozen=True, eq=False)
class Embedding:
    """e(w) = E[w] with E (tokens, width).

    With G (rows, width) in `ngrams`, words get the mean of G[hash of n-gram mod rows] over their n-grams added.
    """

    weight: Array
    ngrams: Array | None


@dataclass(frozen=True, eq=False)
class Pooling:
    """One vector per sequence, from the output h (T, B, width) of layers; zeros for a sequence without steps.

    last: h at the last step; with `bidirectional`, the first half of h at the last step and the second at the first.
    mean, max: over the steps. attention: Σ_t α_t h_t with α = softmax over the steps of outer(tanh(inner(h_t))).

    Attributes:
        kind: "last", "mean", "max" or "attention".
        bidirectional: Whether h has two directions side by side, which only "last" uses.
        inner: (width, width) with a bias, of attention; else None.
        outer: (1, width) without a bias, of attention; else None.
    """

    kind: str
    bidirectional: bool
    inner: Linear | None
    outer: Linear | None


@dataclass(frozen=True, eq=False)
class Language:
    """The next token: logits_t = head(projection(stack(e(w_1 … w_t)))); without a projection, head(stack(…)).

    Attributes:
        task: The name of the task.
    """

    task: str
    embedding: Embedding
    stack: Stack
    projection: Linear | None
    head: Linear


@dataclass(frozen=True, eq=False)
class Member:
    """Scores of a sequence: head(pooling(h)) with h = stack(x), where x is e(tokens) or, without embedding, the input.

    With a merger, the pooling reads relu(merger([h_t; x_t; x_{t−1}; … x_{t−window+1}])), x before the start being 0.
    """

    embedding: Embedding | None
    stack: Stack
    window: int
    merger: Linear | None
    pooling: Pooling
    head: Linear


@dataclass(frozen=True, eq=False)
class Pooled:
    """A prediction for a whole sequence: scores of one member or, of several, log mean softmax(scores of a member).

    Attributes:
        task: The name of the task.
        members: One or more.
        output: What makes predictions of scores: "softmax", "sigmoid" (each label by itself), or "none" (numbers).
    """

    task: str
    members: tuple[Member, ...]
    output: str


@dataclass(frozen=True, eq=False)
class Chain:
    """score(y) = start[y_1] + Σ_t emission_t[y_t] + Σ_t transitions[y_t, y_{t+1}] + end[y_n]: a linear-chain CRF.

    Which tags may follow which is not part of it: that comes from the tags of the task.
    """

    start: Array
    transitions: Array
    end: Array


@dataclass(frozen=True, eq=False)
class SentenceLabel:
    """Scores of a label of the whole sentence: head(pooling(h)), where h is what the head of tags reads."""

    pooling: Pooling
    head: Linear


@dataclass(frozen=True, eq=False)
class Tagger:
    """Scores of a tag for every word: head(stack(v)) with v = [words(w); last state of speller(letters(characters))].

    Without a speller, v = words(w). The speller has both directions, of which each counts where it ends.

    Attributes:
        task: The name of the task.
        crf: The chain over the scores; None where the tags of a sentence are independent given the scores.
        label: None where sentences have tags alone.
    """

    task: str
    words: Embedding
    letters: Embedding | None
    speller: Stack | None
    stack: Stack
    head: Linear
    crf: Chain | None
    label: SentenceLabel | None


@dataclass(frozen=True, eq=False)
class Forecaster:
    """Quantiles of the next steps, as differences from a naive forecast.

    Of the past, the first `targets` columns are values v_0 … v_{T−1}. With a season s, base_h = v_{T−s+((h−1) mod s)},
    size = √(variance of v over time + (0.1 unit)²), and the stack reads (v − v_{T−1}) / size beside the other columns.
    With s = 0, base is 0, size is 1, and v is read as it is. c = pooling(stack(past)). The decoder reads
    [c; h / horizon; covariates_h] at the steps h = 1 … horizon. Its output gives raw = head(…), (targets, quantiles),
    and the result is base + size · spread(raw): the median is raw itself, each quantile above it is the one below it
    plus softplus(raw), and each below it the one above it less softplus(raw).
    """

    task: str
    targets: int
    quantiles: tuple[float, ...]
    season: int
    stack: Stack
    pooling: Pooling
    decoder: Stack
    head: Linear


@dataclass(frozen=True, eq=False)
class Translator:
    """P(target | source), token by token. Ids 0, 1 and 2 of both sides are padding, start and end.

    m = encoder(source(tokens)). The decoder starts from the final states of the encoder's layers, of a bidirectional
    layer their mean over its directions. q_t = decoder(target(token)), and logits are head(q_t); with keys and a mix,
    they are head(tanh(mix([q_t; Σ_s a_ts m_s]))) with a_t = softmax_s(q_t · keys(m_s) / √width of q_t).

    Attributes:
        task: The name of the task.
        beam_size: Of the search for a target; 1 is greedy.
        longest: The most steps that a search takes, the one to the end included.
    """

    task: str
    source: Embedding
    target: Embedding
    encoder: Stack
    decoder: Stack
    keys: Linear | None
    mix: Linear | None
    head: Linear
    beam_size: int
    longest: int


Network = Language | Pooled | Tagger | Forecaster | Translator


def count_parameters(network: Network) -> int:
    """How many numbers a network consists of; those that two parts share count once."""
    found: dict[int, int] = {}

    def visit(part: Any) -> None:
        if hasattr(part, "shape"):  # an array, or a matrix that was rounded
            found[id(part)] = math.prod(part.shape)
        elif isinstance(part, Mapping):
            visit(tuple(part.values()))
        elif isinstance(part, tuple):
            for one in part:
                visit(one)
        elif is_dataclass(part) and not isinstance(part, Equations):
            visit(tuple(getattr(part, one.name) for one in fields(part)))

    visit(network)
    return sum(found.values())
