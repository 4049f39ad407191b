"""Session: a model that reads on, remembers, and can be forked and saved."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from threading import Lock
from typing import Any, Protocol

import numpy as np

from unspool.cells.cell import check_size
from unspool.decoding.sampling import Sampling, check_seed
from unspool.decoding.text_stream import TextStream, read_stops
from unspool.errors import ArgumentError, ArgumentTypeError, DivergenceError
from unspool.runtime import blob
from unspool.runtime.network import Array
from unspool.runtime.quick import check_token
from unspool.runtime.stream import LanguageStream, Memory, Stream
from unspool.runtime.writing import Writing

#: The last ids that are remembered for the text that comes next.
RECENT = TextStream.CONTEXT


class Reader(Protocol):
    """What a session asks of the player that started it."""

    @property
    def stream(self) -> Stream:
        """The network, step by step."""

    @property
    def tokens(self) -> int:
        """How many tokens there are; 0 where steps are not tokens."""

    @property
    def digest(self) -> bytes:
        """Of the network and its weights, 32 bytes."""

    def encode(self, given: Any) -> Any:
        """What the user feeds, as inputs (time, 1, …) of the stream."""

    def encode_step(self, x: Any) -> Any:
        """One step of numbers, as the stream reads it."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""

    def sampling(self, temperature: float, top_k: int | None, top_p: float | None) -> Sampling:
        """How tokens are sampled; refused where the model generates no text."""


class Session:
    """One stream of steps through a model. `player.start()` makes it.

    Threads may share a session: a call waits until the one before it is done. Different sessions run at the same time.

    Example:
        session = player.start()
        session.feed("The ")
        for piece in session.generate(80, temperature=0.8, seed=0):
            print(piece, end="")
    """

    def __init__(self, reader: Reader, memory: Memory, position: int = 0, recent: Sequence[int] = ()) -> None:
        self._reader, self._memory = reader, memory
        self._quick: Callable[[Any], Array] | None = None
        self._lock = Lock()
        self.position, self._recent = position, deque(recent, RECENT)

    def feed(self, given: Any) -> Array | None:
        """Read on.

        Args:
            given: Text or ids for a language model; for other models of text, one text; else numbers, one row per
                step.

        Returns:
            The output after the last step: logits of the next token, probabilities of labels, or numbers. None where
            there was no step.
        """
        return self.read(self._reader.encode(given))

    def read(self, inputs: Any) -> Array | None:
        """Read on, as `feed` does, what the player's `encode` gave, or some steps of it."""
        if not len(getattr(inputs, "ids", inputs)):
            return None
        with self._lock:
            output, self._memory = self._reader.stream.read(inputs, self._memory)
            self._went_on(inputs)
        found: Array = output[0]
        return found

    def _went_on(self, inputs: Any) -> None:
        """Inputs were read, and the memory is that after them; who calls it holds the lock."""
        self._quick = None
        self.position += len(getattr(inputs, "ids", inputs))
        if self._reader.stream.reads_ids:
            self._recent.extend(np.asarray(inputs)[-RECENT:, 0].tolist())

    def trace(self, inputs: Any) -> tuple[Array, list[Array]]:
        """Read on, as `read` does, and look inside meanwhile.

        Args:
            inputs: What the player's `encode` gave, or some steps of it; one at least.

        Returns:
            The output (time, width) after each step; and for each channel of `tracing.list_channels` its values
            (time, units), in the arithmetic of NumPy, which may differ from a kernel's in the last digit.
        """
        stream = self._reader.stream
        with self._lock:
            values = stream.trace(inputs, self._memory)
            outputs, self._memory = stream.run(inputs, self._memory)
            self._went_on(inputs)
        return outputs[:, 0], values

    def read_each(self, inputs: Any) -> Array:
        """Read on, as `read` does, one step at least; the output (time, width) after each."""
        with self._lock:
            outputs, self._memory = self._reader.stream.run(inputs, self._memory)
            self._went_on(inputs)
        found: Array = outputs[:, 0]
        return found

    def logits(self) -> Array | None:
        """Of the token that comes next, for a language model that has read something; else None."""
        return self._logits() if self.position and self._reader.stream.reads_ids else None

    def step(self, x: Any) -> Array:
        """One step.

        Args:
            x: The id of a token, or a vector of numbers.

        Returns:
            The output, as `feed` gives it.
        """
        with self._lock:
            output = (self._quick or self._make_quick())(x)
            self.position += 1
        return output

    def _make_quick(self) -> Callable[[Any], Array]:
        """What takes a step; what need not be asked at every step is asked here."""
        stream, encode, recent = self._reader.stream, self._reader.encode_step, self._recent
        step, self._memory = stream.quick(self._memory)

        def step_token(token: Any) -> Array:
            output = step(token)
            recent.append(int(token))
            return output

        self._quick = step_token if stream.reads_ids else lambda x: step(encode(x))
        return self._quick

    def prepare(self, x: Any) -> Any:
        """An input of `step` as the stream reads it; refused where `step` would refuse it."""
        reads_ids = self._reader.stream.reads_ids
        return self._reader.stream.check(x if reads_ids else self._reader.encode_step(x))

    def generate(
        self,
        count: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: str | Sequence[str] | None = (),
        seed: int | None = None,
    ) -> Iterator[str]:
        """Sample text that follows what was fed; the session reads it as it comes.

        Args:
            count: The most tokens.
            temperature: Divides the logits; 0 takes the most probable token.
            top_k: Only the k most probable tokens.
            top_p: Only the fewest most probable tokens with this probability together.
            stop: Text, or texts, before which to end; None: none.
            seed: Of the random numbers; None: another one each time.

        Returns:
            Pieces of text, each as soon as it is certain.
        """
        sampling = self._reader.sampling(temperature, top_k, top_p)
        return self._pieces(self.writing(count, sampling, stop, seed))

    def writing(
        self, count: int, sampling: Sampling, stop: str | Sequence[str] | None = (), seed: int | None = None
    ) -> Writing:
        """A text that follows what was fed, for one who takes the steps; the arguments are those of `generate`."""
        if not self.position:
            raise ArgumentError.of(
                "session", "new", "has read nothing that text could follow", "Feed it a prompt first"
            )
        text = TextStream(self._reader.decode, read_stops(stop), [*self._recent])
        random = np.random.default_rng(check_seed(seed))
        return Writing(self._logits(), check_size("count", count, 0), sampling, text, random)

    def _logits(self) -> Array:
        """Of the token that comes next."""
        stream = self._reader.stream
        assert isinstance(stream, LanguageStream)
        with self._lock:
            found: Array = stream.logits(self._memory)[0]
        return found

    def _pieces(self, writing: Writing) -> Iterator[str]:
        read = -1
        while not writing.done:
            if read != self.position:  # at the start, and where others stepped since the last piece
                writing.logits = self._logits()
            piece = writing.push(self.step(writing.draw()))
            read = self.position
            if piece:
                yield piece
        rest = writing.finish()
        if rest:
            yield rest

    def fork(self) -> Session:
        """Another session that has read the same, and goes on by itself."""
        with self._lock:
            return Session(self._reader, [np.array(part) for part in self._memory], self.position, self._recent)

    def save(self) -> bytes:
        """All that the session remembers; `player.restore` goes on from it, to the same bits.

        Raises:
            DivergenceError: What it remembers is not finite.
        """
        with self._lock:
            if not all(np.isfinite(part).all() for part in self._memory):
                raise DivergenceError("the session's state is not finite: the model diverges on what it was fed")
            return blob.dump(self._reader.digest, self.position, list(self._recent), self._memory)

    # ── what those ask who step several sessions at once ──

    def lend(self) -> Memory:
        """What it remembers, for one who takes its steps until `give_back`."""
        return self._memory

    def took(self, x: Any) -> None:
        """A step was taken with this input."""
        self.position += 1
        if self._reader.stream.reads_ids:
            self._recent.append(int(x))

    def took_all(self, inputs: Sequence[Any]) -> None:
        """Steps were taken with these inputs."""
        self.position += len(inputs)
        if self._reader.stream.reads_ids:
            self._recent.extend(map(int, inputs[-RECENT:]))

    def give_back(self, memory: Memory) -> None:
        """What it remembers now."""
        self._memory, self._quick = memory, None


def restore(reader: Reader, saved: object) -> Session:
    """The session that was saved."""
    like = reader.stream.start(1)
    position, recent, memory = blob.load(saved, reader.digest, like, RECENT, reader.tokens)
    return Session(reader, memory, position, recent)


def step_many(sessions: Sequence[Session], inputs: Sequence[Any], reader: Reader | None = None) -> list[Array]:
    """One step of several sessions at once, as `Session.step` takes it with each.

    Args:
        sessions: Different sessions of one player.
        inputs: An input for each.
        reader: The player that they must be of; None: any, the same for all.

    Returns:
        The output of each.
    """
    check_many(sessions, inputs, reader)
    if not sessions:
        return []
    stream = sessions[0]._reader.stream
    encoded = [_encode_step(sessions[0]._reader, x) for x in inputs]
    with ExitStack() as held:
        for session in sorted(sessions, key=id):  # in one order, so that no two calls wait for each other
            held.enter_context(session._lock)
        memory = [np.concatenate(parts) for parts in zip(*(session._memory for session in sessions), strict=True)]
        output, memory = stream.run(np.asarray(encoded)[None], memory)
        for row, (session, x) in enumerate(zip(sessions, encoded, strict=True)):
            session.give_back([np.array(part[row : row + 1]) for part in memory])  # a view would keep all rows alive
            session.took(x)
        return [np.array(one) for one in output[0]]


def _encode_step(reader: Reader, x: Any) -> Any:
    """One step, as the stream reads it."""
    tokens = reader.stream.tokens
    return check_token(x, tokens) if tokens else reader.encode_step(x)


def check_many(sessions: Any, inputs: Any, reader: Reader | None = None) -> None:
    """Refuse sessions that cannot step together."""
    if not isinstance(sessions, Sequence) or not all(isinstance(one, Session) for one in sessions):
        raise ArgumentTypeError.of("sessions", sessions, "is not a list of sessions", "Give those of `start()`")
    if (
        not isinstance(inputs, Sequence | np.ndarray)
        or isinstance(inputs, str | bytes)
        or not getattr(inputs, "ndim", 1)
    ):
        raise ArgumentTypeError.of("inputs", inputs, "is not a list", "Give a list with one input for each session")
    if len(sessions) != len(inputs):
        problem = f"are not as many as the {len(sessions)} sessions"
        raise ArgumentError.of("inputs", len(inputs), problem, "Give one input for each session")
    if len({id(session) for session in sessions}) < len(sessions):
        raise ArgumentError.of("sessions", len(sessions), "has a session twice", "Step each session once")
    readers = {id(session._reader) for session in sessions}
    if len(readers) > 1:
        raise ArgumentError.of("sessions", len(sessions), "are of several players", "Step those of one player together")
    if reader is not None and readers - {id(reader)}:
        remedy = "Step them with the player that started them"
        raise ArgumentError.of("sessions", len(sessions), "are of another player", remedy)
