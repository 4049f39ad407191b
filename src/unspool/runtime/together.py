"""Together: sessions that step together again and again, in arrays that are joined when they join."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from unspool.runtime.network import Array
from unspool.runtime.session import Reader, Session, check_many


class Together:
    """Sessions of one player that take every step at once. To join costs a copy; to step on costs nothing per row.

    While a session is in here nothing else may use it. Results are those of stepping alone, to the bit.

    Args:
        reader: The player of all sessions.

    Attributes:
        sessions: Those that are in here, in the order of the rows.

    Example:
        together = Together(player)
        together.join([one, other])
        outputs = together.step([3, 5])
        together.leave([one])
    """

    def __init__(self, reader: Reader) -> None:
        self._reader, self._memory = reader, list[Array]()
        self.sessions: list[Session] = []

    def join(self, sessions: Sequence[Session]) -> None:
        """Take in sessions, whose memory stays here until they leave."""
        check_many([*self.sessions, *sessions], [*self.sessions, *sessions])
        if not sessions:
            return
        new = [session.lend() for session in sessions]
        rows = [self._memory, *new] if self.sessions else new
        self._memory = [np.concatenate(parts) for parts in zip(*rows, strict=True)]
        self.sessions = [*self.sessions, *sessions]

    def step(self, inputs: Sequence[Any]) -> Array:
        """One step of all; each input is what `Session.prepare` gave.

        Returns:
            The outputs, one row per session. After an error nothing has changed.
        """
        output, self._memory = self._reader.stream.run(np.asarray(inputs)[None], self._memory)
        for session, x in zip(self.sessions, inputs, strict=True):
            session.took(x)
        found: Array = output[0]
        return found

    def advance(self, inputs: Sequence[Sequence[Any]]) -> Array:
        """Several steps of all at once; for each session its inputs, as many as every other has.

        Returns:
            The outputs (steps, sessions, …), with the bits of single steps. After an error nothing has changed.
        """
        steps = np.ascontiguousarray(np.asarray(inputs).swapaxes(0, 1))
        output, self._memory = self._reader.stream.run(steps, self._memory)
        for session, own in zip(self.sessions, inputs, strict=True):
            session.took_all(own)
        return output

    def leave(self, sessions: Iterable[Session]) -> None:
        """Give sessions their memory back."""
        gone = {id(session) for session in sessions}
        kept = []
        for row, session in enumerate(self.sessions):
            if id(session) in gone:
                session.give_back([np.array(part[row : row + 1]) for part in self._memory])
            else:
                kept.append(row)
        if len(kept) < len(self.sessions):
            self._memory = [part[kept] for part in self._memory]
            self.sessions = [self.sessions[row] for row in kept]
