"""Batcher: one thread per model that steps all sessions that wait together; they join and leave between steps."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Any

import numpy as np

from unspool.runtime.network import Array
from unspool.runtime.run_player import RunPlayer
from unspool.runtime.together import Together
from unspool.runtime.writing import Writing, draw_together
from unspool.server.jobs import Call, Feed, Job, Stepping, Steps, Token, Write, diverged
from unspool.server.metrics import SECONDS, SIZES, Metrics
from unspool.server.refusals import overloaded

#: Steps after which a job gives its place in a full batch to one that waits.
TURN = 32
#: The most steps of a batch between which nobody joins or leaves.
AT_ONCE = 8
log = logging.getLogger("unspool.server")


class Batcher:
    """The worker of one model.

    A turn is one call or a piece of it, one piece of a feed, and one step of all sessions in the batch; so none waits
    for more than a turn while there is room, and for `TURN` steps of a full batch otherwise.

    Args:
        name: The model's.
        player: Steps the sessions.
        batch_size: The most sessions that step together.
        queue: The most jobs that wait beside those.
        metrics: Counts steps and batches.
    """

    def __init__(self, name: str, player: RunPlayer, batch_size: int, queue: int, metrics: Metrics) -> None:
        self.name, self._metrics = name, metrics
        self._batch_size, self._room = batch_size, batch_size + queue
        self._together = Together(player)
        self._batch: list[Stepping] = []
        self._stepped: list[Stepping] = []  # the batch at its latest step
        self._waiting: deque[Job] = deque()
        self._news = False  # whether a job that waits might begin
        self._pieces: deque[Feed] = deque()
        self._calls: deque[Call] = deque()
        self._busy: set[int] = set()  # the sessions of all jobs that have begun
        self._changed, self._closing, self._thread = Condition(), False, Thread(target=self._work, daemon=True)
        self._started, self._outbox = False, list[tuple[Job, Callable[[], None]]]()
        metrics.gauge("unspool_queue_length", lambda: len(self._waiting), model=name)

    # ── from the loop of the server ──

    async def run(self, job: Job) -> Any:
        """Have a job done and wait for it; if this is cancelled, so is the job, and the session is free again."""
        self.submit(job)
        return await self.wait(job)

    async def wait(self, job: Job) -> Any:
        """The result of a job that was submitted."""
        try:
            return await asyncio.shield(job.result)
        except asyncio.CancelledError:
            await self.abandon([job])
            raise

    async def abandon(self, jobs: Sequence[Job]) -> None:
        """Drop jobs, and wait until their sessions are free."""
        for job in jobs:
            job.cancelled = True
            job.result.add_done_callback(_retrieve)
        if holding := [job.result for job in jobs if job.session is not None and not job.result.done()]:
            await asyncio.wait(holding)

    def submit(self, job: Job) -> None:
        """Queue a job.

        Raises:
            RefusalError: 503: the queue is full, or the server is closing.
        """
        with self._changed:
            if self._closing:
                raise overloaded("The server is closing.", "closing")
            if self.load >= self._room:
                raise overloaded(f"The model {self.name} has too many requests at once. Try again later.")
            self._waiting.append(job)
            self._news = True
            if not self._started:
                self._started = True
                self._thread.start()
            self._changed.notify()

    @property
    def load(self) -> int:
        """Jobs that wait or are being done."""
        return len(self._waiting) + len(self._batch) + len(self._pieces) + len(self._calls)

    @property
    def alive(self) -> bool:
        """Whether jobs would be done."""
        return not self._closing and (not self._started or self._thread.is_alive())

    def close(self) -> None:
        """Refuse new jobs, drop those that are left, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._started:
            self._thread.join()

    # ── the thread ──

    def _work(self) -> None:
        while True:
            try:
                if not self._admit():
                    break
                self._take_turn()
            except Exception as error:  # the thread must outlive any mistake: it has the jobs of many
                log.exception("the worker of %s failed", self.name)
                self._end([*self._batch, *self._pieces, *self._calls], error)
            self._deliver()
        self._end([*self._batch, *self._pieces, *self._calls, *self._waiting], overloaded("The server is closing."))
        self._deliver()

    def _admit(self) -> bool:
        """Let jobs begin whose sessions are free; wait where there is nothing to do. False: no more."""
        with self._changed:
            while not (self._closing or self.load):
                self._changed.wait()
            self._rotate()
            joining = self._begin() if self._news else []
        self._join(joining)
        return not self._closing

    def _join(self, jobs: Sequence[Stepping]) -> None:
        try:
            self._together.join([job.session for job in jobs])
        except Exception as error:
            log.exception("sessions of %s cannot step together", self.name)
            self._end(jobs, error)
            return
        self._batch += jobs
        for job in jobs:
            job.turns = 0

    def _begin(self) -> list[Stepping]:
        """Let jobs begin whose sessions are free; returns those that join the batch."""
        later, joining = deque[Job](), list[Stepping]()
        while self._waiting:
            job = self._waiting.popleft()
            if not self._can_begin(job, len(joining)):
                later.append(job)
                continue
            if job.session is not None:
                self._busy.add(id(job.session))
            if isinstance(job, Call):
                self._calls.append(job)
            elif isinstance(job, Feed):
                self._pieces.append(job)
            elif isinstance(job, Stepping):
                joining.append(job)
        self._waiting, self._news = later, False
        return joining

    def _can_begin(self, job: Job, joining: int) -> bool:
        if job.session is not None and id(job.session) in self._busy:
            return False
        return not isinstance(job, Stepping) or len(self._batch) + joining < self._batch_size

    def _rotate(self) -> None:
        """Where others wait for a place in the batch, those that have had their turn go to the end of the queue."""
        excess = len(self._waiting) + len(self._batch) - self._batch_size
        if excess <= 0 or not self._waiting:
            return
        tired = [job for job in self._batch if (job.turns or 0) >= TURN][:excess]
        self._leave(tired)
        self._waiting.extend(tired)

    def _take_turn(self) -> None:
        if self._calls:
            self._answer(self._calls.popleft())
        if self._pieces:
            self._read_on(self._pieces.popleft())
        self._end([job for job in self._batch if job.cancelled], asyncio.CancelledError())
        self._finish([job for job in self._batch if job.done])
        if self._batch:
            self._step()

    def _answer(self, job: Call) -> None:
        try:
            if job.cancelled:
                raise asyncio.CancelledError
            job.advance()
        except (Exception, asyncio.CancelledError) as error:
            self._end([job], error)
            return
        if job.done:
            self._outbox.append((job, _ending(job, job.value)))
        else:
            self._calls.append(job)

    def _read_on(self, job: Feed) -> None:
        try:
            if job.cancelled:
                raise asyncio.CancelledError
            steps = 0 if job.done else job.advance()
        except (Exception, asyncio.CancelledError) as error:
            self._end([job], error)
            return
        self._metrics.count("unspool_tokens_total", steps, model=self.name, kind=job.kind)
        if job.done:
            self._free(job)
            self._outbox.append((job, lambda: job.result.set_result(job.output)))
        else:
            self._pieces.append(job)

    def _step(self) -> None:
        """One step of every session in the batch, or some where all inputs are known: less of Python for each."""
        steps = self._count_steps()
        inputs, begun = self._next_inputs(steps), time.perf_counter()
        outputs = self._together.advance(inputs)
        self._metrics.observe("unspool_batch_seconds", (time.perf_counter() - begun) / steps, SECONDS, model=self.name)
        self._metrics.observe("unspool_batch_size", len(inputs), SIZES, model=self.name)
        self._give_up_diverged(outputs)
        counts: dict[str, int] = {}
        for row, job in enumerate(self._stepped):
            counts[job.kind] = counts.get(job.kind, 0) + steps
            if job.turns is not None:
                job.turns += steps
                self._hand_over(job, outputs[:, row])
        for kind, count in counts.items():
            self._metrics.count("unspool_tokens_total", count, model=self.name, kind=kind)
        self._finish([job for job in self._batch if job.done])

    def _count_steps(self) -> int:
        """How many steps all can take before one of them is done, or another has its turn."""
        if self._calls or self._pieces or any(job.samples for job in self._batch):
            return 1
        return min(AT_ONCE, *(job.left for job in self._batch if isinstance(job, Steps)))

    def _give_up_diverged(self, outputs: Array) -> None:
        """End the jobs whose output JSON has no word for; all rows are looked at together."""
        self._stepped = self._batch
        if not np.isfinite(outputs).all():
            wrong = np.flatnonzero(~np.isfinite(outputs).all((0, -1))).tolist()
            self._end([self._stepped[row] for row in wrong], diverged())

    def _next_inputs(self, steps: int) -> list[Sequence[Any]]:
        """Some for each job of the batch; tokens that are sampled in the same way are drawn together."""
        ways: dict[Any, list[Writing]] = {}
        for job in self._batch:
            if job.samples and isinstance(job, Write):
                ways.setdefault(job.writing.sampling, []).append(job.writing)
        for writings in ways.values():
            draw_together(writings)
        return [job.next(steps) if isinstance(job, Steps) else _drawn(job) for job in self._batch]

    def _hand_over(self, job: Stepping, outputs: Array) -> None:
        try:
            job.took(outputs)
        except Exception as error:
            self._end([job], error)
            return
        if isinstance(job, Write) and job.arrived:
            arrived, job.arrived = job.arrived, []
            self._outbox.append((job, _handing(job, arrived)))

    def _finish(self, jobs: Sequence[Stepping]) -> None:
        self._leave(jobs)
        for job in jobs:
            try:
                action = _ending(job, job.finish())
            except Exception as error:
                log.exception("a job of %s has no end", self.name)
                action = _failing(job, error)
            self._outbox.append((job, action))

    def _end(self, jobs: Sequence[Job], error: BaseException) -> None:
        """Give jobs up."""
        self._leave([job for job in jobs if isinstance(job, Stepping)])
        gone = {id(job) for job in jobs}
        self._pieces = deque(job for job in self._pieces if id(job) not in gone)
        self._calls = deque(job for job in self._calls if id(job) not in gone)
        for job in jobs:
            self._free(job)
            self._outbox.append((job, _failing(job, error)))

    def _leave(self, jobs: Sequence[Stepping]) -> None:
        here = [job for job in jobs if job.turns is not None]
        if not here:
            return
        gone = {id(job) for job in here}
        self._batch = [job for job in self._batch if id(job) not in gone]
        self._together.leave([job.session for job in here])
        for job in here:
            job.turns = None
            self._free(job)

    def _free(self, job: Job) -> None:
        """The next job of a session may begin."""
        if job.session is not None:
            self._busy.discard(id(job.session))
        self._news = True

    def _deliver(self) -> None:
        """Hand all that has come of a turn to the loops, in one call for each."""
        outbox, self._outbox = self._outbox, []
        for loop in {id(job.loop): job.loop for job, _ in outbox}.values():
            own = [action for job, action in outbox if job.loop is loop]
            if not loop.is_closed():
                loop.call_soon_threadsafe(_run_all, own)


def _retrieve(result: asyncio.Future[Any]) -> None:
    """Ask for the error of a job that nobody waits for, so that asyncio does not complain."""
    if not result.cancelled():
        result.exception()


def _drawn(job: Stepping) -> list[int]:
    assert isinstance(job, Write)
    return job.writing.tokens[-1:]


def _run_all(actions: Sequence[Callable[[], None]]) -> None:
    for action in actions:
        action()


def _handing(job: Write, arrived: Sequence[Token]) -> Callable[[], None]:
    def hand() -> None:
        for token in arrived:
            job.tokens.put_nowait((job, token))

    return hand


def _ending(job: Job, value: Any) -> Callable[[], None]:
    def end() -> None:
        job.result.set_result(value)
        if isinstance(job, Write):
            job.tokens.put_nowait((job, None))

    return end


def _failing(job: Job, error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        if isinstance(error, asyncio.CancelledError):
            job.result.cancel()
        else:
            job.result.set_exception(error)
        if isinstance(job, Write):
            job.tokens.put_nowait((job, None))

    return fail
