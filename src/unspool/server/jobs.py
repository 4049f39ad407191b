"""Jobs: what requests ask of a model's worker, step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from unspool.errors import DivergenceError
from unspool.runtime.network import Array
from unspool.runtime.session import Session
from unspool.runtime.writing import Writing

#: Steps of one feed that are taken before others have their turn.
CHUNK = 256


class Job:
    """Something that a worker does for one request.

    Args:
        session: The session that it changes; None where it needs none.

    Attributes:
        cancelled: Set by who no longer wants it; the worker drops it between two steps.
        result: Done when the worker no longer touches the session.
    """

    #: What the metric of tokens calls the steps of such a job.
    kind = "fed"

    def __init__(self, session: Session | None = None) -> None:
        self.session, self.cancelled = session, False
        self.loop = asyncio.get_running_loop()
        self.result: asyncio.Future[Any] = self.loop.create_future()


class Call(Job):
    """One call that takes a model as a whole, such as a prediction for examples."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__()
        self._function = function
        self.done, self.value = False, None

    def advance(self) -> None:
        """Do it, or a piece of it."""
        self.value, self.done = self._function(), True


class Course(Call):
    """A call in pieces, between which others have their turn."""

    def __init__(self, pieces: Generator[None, None, Any]) -> None:
        super().__init__(lambda: None)
        self._pieces = pieces

    def advance(self) -> None:
        try:
            next(self._pieces)
        except StopIteration as end:
            self.value, self.done = end.value, True


class Feed(Job):
    """Many steps of one session, of which only the last output is wanted."""

    def __init__(self, session: Session, inputs: Any) -> None:
        super().__init__(session)
        self.session: Session = session
        self._rest, self._output = inputs, None

    def advance(self) -> int:
        """Take some steps; returns how many."""
        before = self.session.position
        self._output = checked(self.session.read(self._next(CHUNK)))
        return self.session.position - before

    def _next(self, most: int) -> Any:
        """Take at most so many of the inputs that are left; words with their spelling are not divided."""
        inputs = self._rest
        if not isinstance(inputs, np.ndarray):
            self._rest = np.zeros((0, 1))
            return inputs
        self._rest = inputs[most:]
        return inputs[:most]

    @property
    def done(self) -> bool:
        """Whether all is read."""
        return not len(getattr(self._rest, "ids", self._rest))

    @property
    def output(self) -> Array | None:
        """The output after the last step."""
        return self._output


class Stepping(Job):
    """Single steps of one session, taken together with those of others."""

    session: Session
    #: Whether each input is drawn from the output before it.
    samples = False
    #: Steps since it joined the batch; None while it is not in there.
    turns: int | None = None

    @property
    def done(self) -> bool:
        """Whether no step is left."""
        raise NotImplementedError

    def took(self, outputs: Array) -> None:
        """The outputs of the steps with the latest inputs, which are finite."""
        raise NotImplementedError

    def finish(self) -> Any:
        """What the request gets in the end."""
        raise NotImplementedError


class Steps(Stepping):
    """Steps with inputs that are known."""

    kind = "stepped"

    def __init__(self, session: Session, inputs: Sequence[Any], keep: str) -> None:
        super().__init__(session)
        self._inputs, self._keep, self._at = inputs, keep, 0
        self.outputs: list[Array] = []

    @property
    def done(self) -> bool:
        return self._at >= len(self._inputs)

    @property
    def left(self) -> int:
        """How many steps are left."""
        return len(self._inputs) - self._at

    def next(self, steps: int) -> Sequence[Any]:
        """The next inputs."""
        self._at += steps
        return self._inputs[self._at - steps : self._at]

    def took(self, outputs: Array) -> None:
        if self._keep == "all":
            self.outputs.extend(outputs)
        elif self._keep == "last":
            self.outputs = [outputs[-1]]

    def finish(self) -> list[Array]:
        return self.outputs


class Token(NamedTuple):
    """One step of a text: the piece that is certain, the id, and log-probabilities where they are wanted."""

    piece: str
    token: int
    log_probability: float | None = None
    likeliest: tuple[tuple[int, float], ...] = ()


#: Tokens of texts as they come; None after the last of each.
Arrivals = asyncio.Queue[tuple["Write", Token | None]]


class Write(Stepping):
    """A text that is sampled token by token; each is put into `tokens` as it comes, and None in the end.

    Args:
        session: Reads the text as it is sampled.
        writing: The text.
        tokens: Where tokens are put, with this job; several texts may share it.
        index: The number of this text among those.
        ranked: Of how many of the likeliest tokens log-probabilities are wanted; None: of none.
    """

    kind, samples = "written", True

    def __init__(
        self, session: Session, writing: Writing, tokens: Arrivals, index: int = 0, ranked: int | None = None
    ) -> None:
        super().__init__(session)
        self.writing, self.tokens, self.index, self._ranked = writing, tokens, index, ranked
        self.arrived: list[Token] = []  # not yet handed over to the loop

    @property
    def done(self) -> bool:
        return self.writing.done

    def took(self, outputs: Array) -> None:
        (output,) = outputs
        token = self.writing.tokens[-1]
        ranked = self._ranked
        found = (None, ()) if ranked is None else rank(self.writing.log_probabilities(), token, ranked)
        self.arrived.append(Token(self.writing.push(output), token, *found))

    def finish(self) -> str:
        return self.writing.finish()


def rank(log_p: Array, token: int, count: int) -> tuple[float, tuple[tuple[int, float], ...]]:
    """The log-probability of a token, and those of the likeliest ones."""
    order = np.argsort(-log_p, kind="stable")[:count].tolist()
    return float(log_p[token]), tuple((place, float(log_p[place])) for place in order)


def checked(output: Any) -> Any:
    """An output; refused where it is not finite, which JSON has no word for."""
    if output is not None and not np.isfinite(output).all():
        raise diverged()
    return output


def diverged() -> DivergenceError:
    """That an output is not finite."""
    return DivergenceError("the model's output is not finite for what it was given")
