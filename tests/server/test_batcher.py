"""Batcher: sessions join and leave, none steps twice at once, a full batch is shared, and mistakes stay alone."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unspool
from unspool.errors import DivergenceError
from unspool.runtime.run_player import RunPlayer
from unspool.server.batcher import TURN, Batcher
from unspool.server.jobs import Call, Course, Feed, Steps
from unspool.server.metrics import Metrics
from unspool.server.refusals import RefusalError


@pytest.fixture(scope="module")
def player(book: Path) -> RunPlayer:
    return unspool.load(book)


@pytest.fixture
def batchers(player: RunPlayer) -> Iterator[Any]:
    made: list[Batcher] = []

    def make(batch_size: int = 8, queue: int = 100) -> Batcher:
        made.append(Batcher("run", player, batch_size, queue, Metrics()))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_jobs_of_one_session_are_done_in_order_and_never_at_once(batchers: Any, player: RunPlayer) -> None:
    async def run() -> None:
        batcher, session, own = batchers(), player.start(), player.start()
        jobs = [Steps(session, [number, number + 1], "all") for number in range(6)]
        fed = Feed(session, player.encode("the "))
        found = await asyncio.gather(*(batcher.run(job) for job in jobs), batcher.run(fed))
        expected = [own.step(x) for number in range(6) for x in (number, number + 1)]
        assert np.array_equal([output for outputs in found[:-1] for output in outputs], expected)
        assert np.array_equal(found[-1], own.feed("the "))  # type: ignore[arg-type]
        assert session.save() == own.save()

    asyncio.run(run())


def test_a_full_batch_is_shared(batchers: Any, player: RunPlayer) -> None:
    """Two long jobs hold both places; a short one is done long before them, and they come to their end."""

    async def run() -> None:
        batcher, done = batchers(batch_size=2), list[str]()
        sessions = {name: player.start() for name in ("long", "longer", "short")}

        async def take(name: str, steps: int) -> None:
            await batcher.run(Steps(sessions[name], [1] * steps, "none"))
            done.append(name)

        await asyncio.gather(take("long", 20 * TURN), take("longer", 30 * TURN), take("short", 2))
        assert done == ["short", "long", "longer"]
        alone = player.start()
        for _ in range(20 * TURN):
            alone.step(1)
        assert sessions["long"].save() == alone.save()

    asyncio.run(run())


def test_a_job_that_is_cancelled_leaves_its_session_free(batchers: Any, player: RunPlayer) -> None:
    async def run() -> None:
        batcher, session = batchers(), player.start()
        task = asyncio.create_task(batcher.run(Steps(session, [1] * 10**6, "none")))
        while not batcher.load:
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        at = session.position
        assert at < 10**6
        assert len(await batcher.run(Steps(session, [1], "all"))) == 1
        assert session.position == at + 1

    asyncio.run(run())


def test_a_mistake_of_one_job_stays_with_it(batchers: Any, player: RunPlayer) -> None:
    class Broken(Steps):
        def took(self, output: Any) -> None:
            raise DivergenceError("not finite")

    async def run() -> None:
        batcher = batchers()
        good = [batcher.run(Steps(player.start(), [1] * 50, "last")) for _ in range(3)]
        bad = [batcher.run(Broken(player.start(), [1] * 50, "last")), batcher.run(Call(lambda: 1 / 0))]
        found: list[Any] = await asyncio.gather(*good, *bad, return_exceptions=True)
        assert all(len(outputs) == 1 for outputs in found[:3])
        assert [type(error) for error in found[3:]] == [DivergenceError, ZeroDivisionError]
        assert batcher.alive

    asyncio.run(run())


def test_a_mistake_at_the_beginning_or_the_end_of_a_job_is_told(
    batchers: Any, player: RunPlayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless(Steps):
        def finish(self) -> Any:
            raise ValueError("no end")

    async def run() -> None:
        batcher, session = batchers(), player.start()
        async with asyncio.timeout(30):
            with pytest.raises(ValueError, match="no end"):
                await batcher.run(Endless(session, [1], "last"))
            with monkeypatch.context() as patch:
                patch.setattr(session, "lend", lambda: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    await batcher.run(Steps(session, [1], "last"))
            assert len(await batcher.run(Steps(session, [1], "last"))) == 1
        assert batcher.alive

    asyncio.run(run())


def test_a_call_in_pieces_lets_others_have_their_turn_and_ends_where_it_is_cancelled(
    batchers: Any, player: RunPlayer
) -> None:
    async def run() -> None:
        batcher, session, seen = batchers(), player.start(), list[int]()

        def work(end: int) -> Generator[None, None, str]:
            """Pieces until the session has stepped so far, which it can only between them."""
            while session.position < end and len(seen) < 10**6:
                seen.append(session.position)
                yield
            return "done"

        found, _ = await asyncio.gather(batcher.run(Course(work(20))), batcher.run(Steps(session, [1] * 20, "last")))
        assert found == "done"
        assert len(seen) < 10**6
        seen.clear()
        task = asyncio.create_task(batcher.run(Course(work(21))))
        while len(seen) < 100:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await batcher.run(Call(int))  # after the turn in which the other is dropped
        await batcher.run(Call(int))
        assert batcher.load == 0
        assert len(seen) < 10**6

    asyncio.run(run())


def test_a_closed_batcher_refuses_and_ends_what_waits(batchers: Any, player: RunPlayer) -> None:
    async def run() -> None:
        batcher = batchers()
        waiting = asyncio.create_task(batcher.run(Steps(player.start(), [1] * 10**7, "none")))
        while not batcher.load:
            await asyncio.sleep(0)
        await asyncio.to_thread(batcher.close)
        with pytest.raises(RefusalError, match="closing"):
            await waiting
        with pytest.raises(RefusalError, match="closing"):
            await batcher.run(Call(int))
        assert not batcher.alive

    asyncio.run(run())
