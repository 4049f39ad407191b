"""Texts that a model writes for a request, as they come, until a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from unspool.runtime.run_player import RunPlayer
from unspool.runtime.session import Session
from unspool.runtime.writing import Writing
from unspool.server.batcher import Batcher
from unspool.server.jobs import Arrivals, Token, Write
from unspool.server.refusals import RefusalError, overloaded
from unspool.server.traces import Follower


class Piece(NamedTuple):
    """What has come of one of the texts: a token, or what was held back, in the end."""

    job: Write
    text: str
    token: Token | None  # None: the text is over


class Texts:
    """Texts that are written together.

    Args:
        batcher: The worker of the model.
        jobs: One per text, all with the same queue.
        arrivals: That queue.
        deadline: The time of the loop at which all must be done.
        follower: Tells what goes on inside while the one text is written; None: nobody asked.
    """

    def __init__(
        self,
        batcher: Batcher,
        jobs: Sequence[Write],
        arrivals: Arrivals,
        deadline: float,
        follower: Follower | None = None,
    ) -> None:
        self.follower = follower
        self._batcher, self.jobs, self._arrivals, self._deadline = batcher, jobs, arrivals, deadline
        self._refusal: RefusalError | None = None

    async def submit(self) -> None:
        """Queue all of them, or none."""
        queued: list[Write] = []
        try:
            for job in self.jobs:
                self._batcher.submit(job)
                queued.append(job)
        except RefusalError:
            await self._batcher.abandon(queued)
            raise

    async def pieces(self) -> AsyncIterator[Piece]:
        """Pieces of all texts, as they come.

        Raises:
            RefusalError: 503: the deadline has passed; or why the texts were given up.
        """
        left = len(self.jobs)
        while left:
            job, token = await self._next()
            if token is not None:
                yield Piece(job, token.piece, token)
                continue
            left -= 1
            yield Piece(job, await self._batcher.wait(job), None)

    def give_up(self, refusal: RefusalError) -> None:
        """Let who waits for the next piece have this instead."""
        self._refusal = refusal
        self._arrivals.put_nowait((self.jobs[0], None))

    async def close(self) -> None:
        """Drop what is not done; the sessions are free then."""
        await self._batcher.abandon(self.jobs)

    async def _next(self) -> tuple[Write, Token | None]:
        if asyncio.get_running_loop().time() > self._deadline:  # also where the next one waits already
            raise timed_out()
        try:
            async with asyncio.timeout_at(self._deadline):
                found = await self._arrivals.get()
        except TimeoutError:
            raise timed_out() from None
        if self._refusal is not None:
            raise self._refusal
        return found


def timed_out() -> RefusalError:
    """That a request takes too long."""
    return overloaded("The request took too long. Ask for less, or try again later.", "timeout")


def make_writing(player: RunPlayer, session: Session, body: dict[str, Any], number: int = 0) -> Writing:
    """The text that a body asks for, number `number` of those with its seed."""
    temperature = 1.0 if body["temperature"] is None else body["temperature"]
    sampling = player.sampling(temperature, body["top_k"], body["top_p"])
    stop, seed = body["stop"] or (), body["seed"]
    ends = (stop,) if isinstance(stop, str) else tuple(stop)
    return session.writing(body["max_tokens"], sampling, ends, None if seed is None else seed + number)


def why_ended(job: Write) -> str:
    """Why a text is over, in OpenAI's words."""
    return "stop" if job.writing.stopped else "length"
