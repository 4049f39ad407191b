"""What can be asked of a session: to feed, step, generate, fork, and to hand out or take in its state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp

from unspool.runtime.network import Array
from unspool.server.answers import Asked, EventStream, answer, answer_large, blob
from unspool.server.jobs import Arrivals, Feed, Steps, Write
from unspool.server.models import find_model
from unspool.server.reading import encode
from unspool.server.refusals import unusable
from unspool.server.service import Service
from unspool.server.sessions import Entry, deleted
from unspool.server.texts import Texts, make_writing, why_ended
from unspool.server.traces import Follower, TracedFeed, check_traced
from unspool.server.waiting import aside, count

#: Numbers of the outputs that one answer has at most: some 20 megabytes of JSON.
MOST_NUMBERS = 1_000_000


async def open_session(service: Service, asked: Asked) -> Response:
    """A new session."""
    model = find_model(service.models, asked.body.get("model"))
    return answer(describe(service, await service.sessions.open(asked.owner, model, model.player.start())), 201)


async def show_session(service: Service, asked: Asked) -> Response:
    """What is known about a session."""
    return answer(describe(service, await service.sessions.find(asked.names["id"], asked.owner)))


async def delete_session(service: Service, asked: Asked) -> Response:
    """Forget a session; a text that is being written in it ends with an error."""
    await service.sessions.drop(await service.sessions.find(asked.names["id"], asked.owner))
    return Response(status_code=204)


async def feed_session(service: Service, asked: Asked) -> Response:
    """Read on."""
    async with service.sessions.using(asked.names["id"], asked.owner) as entry:
        return await answer_large(await feed(service, entry, asked.body))


async def step_session(service: Service, asked: Asked) -> Response:
    """Single steps, with the output of each."""
    async with service.sessions.using(asked.names["id"], asked.owner) as entry:
        return await answer_large(await step(service, entry, asked.body))


async def generate_in_session(service: Service, asked: Asked) -> ASGIApp:
    """Write on; as events, where `stream` is set."""
    async with AsyncExitStack() as stack:
        entry = await stack.enter_async_context(service.sessions.using(asked.names["id"], asked.owner))
        texts = await start_text(entry, asked.body, asked.deadline)
        stack.push_async_callback(texts.close)
        if asked.body["stream"]:
            kept = stack.pop_all()
            return EventStream(_stream(entry, texts, kept), kept.aclose)
        return await answer_large(await whole_text(entry, texts))
    raise AssertionError  # the stack lets no exception pass


async def _stream(entry: Entry, texts: Texts, stack: AsyncExitStack) -> AsyncIterator[dict[str, Any]]:
    """The events of a text; the session is kept before the last of them says that all went well."""
    async for event in text_events(texts):
        yield event
    await stack.aclose()
    yield text_end(entry, texts)


async def fork_session(service: Service, asked: Asked) -> Response:
    """Another session that has read the same."""
    async with service.sessions.using(asked.names["id"], asked.owner) as entry:
        return answer(describe(service, await fork(service, entry)), 201)


async def save_session(service: Service, asked: Asked) -> Response:
    """All that a session remembers."""
    async with service.sessions.using(asked.names["id"], asked.owner) as entry:
        return blob(entry.session.save(), "application/octet-stream")


async def restore_session(service: Service, asked: Asked) -> Response:
    """Go on from what was saved."""
    async with service.sessions.using(asked.names["id"], asked.owner) as entry:
        entry.session = entry.model.player.restore(asked.body)
        return answer(describe(service, entry))


# ── the same without HTTP, for one who holds the session ──


def describe(service: Service, entry: Entry) -> dict[str, Any]:
    """A session as the client sees it."""
    position, idle = entry.session.position, service.settings.idle
    return {"id": entry.id, "model": entry.model.name, "position": position, "idle": idle}


async def fork(service: Service, entry: Entry) -> Entry:
    """Another session that has read the same."""
    return await service.sessions.open(entry.owner, entry.model, entry.session.fork())


async def feed(service: Service, entry: Entry, body: dict[str, Any]) -> dict[str, Any]:
    """Read on, and the output after the last step."""
    inputs = await encode(entry.model, body["input"], service.settings.max_tokens)
    player = entry.model.player
    if body["trace"]:
        check_traced(len(getattr(inputs, "ids", inputs)), "input")
        job: Feed = TracedFeed(entry.session, inputs, player, body["top"])
    else:
        job = Feed(entry.session, inputs)
    output = await entry.model.batcher.run(job)
    told = {"position": entry.session.position, "output": None if output is None else numbers(output)}
    return told | ({"trace": job.steps} if isinstance(job, TracedFeed) else {})


async def step(service: Service, entry: Entry, body: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG001
    """Single steps."""
    if body["outputs"] == "all":
        _check_outputs(len(body["inputs"]), entry.model.player.stream.width)
    inputs = await aside(count(body["inputs"]), prepare, entry, body["inputs"])
    outputs = await entry.model.batcher.run(Steps(entry.session, inputs, body["outputs"]))
    told: list[list[float]] = await aside(sum(map(len, outputs)), lambda: [numbers(output) for output in outputs])
    return {"position": entry.session.position, "outputs": told}


def _check_outputs(steps: int, width: int) -> None:
    """Refuse more outputs than one answer has."""
    most = max(1, MOST_NUMBERS // width)
    if steps > most:
        message = (
            f"`inputs` has {steps:,} steps of {width:,} numbers each; the outputs of {most:,} are told at once. "
            "Send them in parts, or ask for the `outputs` of the last."
        )
        raise unusable(message, "inputs", "too_many_outputs")


def prepare(entry: Entry, given: list[Any]) -> list[Any]:
    """Inputs of steps, each as the stream reads it; ids are most often right, and are looked at together."""
    tokens = entry.model.player.tokens
    if set(map(type, given)) == {int} and min(given) >= 0 and max(given) < tokens:
        return given
    return [entry.session.prepare(x) for x in given]


async def start_text(entry: Entry, body: dict[str, Any], deadline: float) -> Texts:
    """Begin to write on."""
    entry.model.demand_text()
    follower = None
    if body["trace"]:
        check_traced(body["max_tokens"], "max_tokens")
        follower = Follower(entry.model.batcher, entry.session.fork(), entry.model.player, body["top"])
    arrivals: Arrivals = asyncio.Queue()
    job = Write(entry.session, make_writing(entry.model.player, entry.session, body), arrivals)
    texts = Texts(entry.model.batcher, [job], arrivals, deadline, follower)
    await texts.submit()
    entry.stop = partial(texts.give_up, deleted())
    if entry.deleted:
        entry.stop()
    return texts


async def text_events(texts: Texts) -> AsyncIterator[dict[str, Any]]:
    """Tokens as they come."""
    async for piece in texts.pieces():
        if piece.token is not None:
            told = {"token": piece.token.token, "text": piece.text}
            yield told if texts.follower is None else told | {"trace": await texts.follower.read(piece.token.token)}
        elif piece.text:
            yield {"token": None, "text": piece.text}


def text_end(entry: Entry, texts: Texts) -> dict[str, Any]:
    """How a text ended."""
    return {"finish_reason": why_ended(texts.jobs[0]), "position": entry.session.position}


async def whole_text(entry: Entry, texts: Texts) -> dict[str, Any]:
    """The text when all is written."""
    text = "".join([piece.text async for piece in texts.pieces()])
    job = texts.jobs[0]
    told = {"text": text, "tokens": job.writing.tokens, "finish_reason": why_ended(job)}
    if texts.follower is not None:
        told["trace"] = [await texts.follower.read(token) for token in job.writing.tokens]
    return {"position": entry.session.position, **told}


def numbers(output: Array) -> list[float]:
    """An output as JSON has it: the shortest digits from which the same number is read."""
    found: list[float] = output.tolist()
    return found
