"""Completions in the form of OpenAI: a prompt in, texts that follow it out."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from starlette.types import ASGIApp

from unspool.runtime.session import Session
from unspool.server.answers import Asked, EventStream, answer_large
from unspool.server.jobs import Arrivals, Feed, Token, Write
from unspool.server.models import ServedModel, find_model
from unspool.server.reading import read_prompts, too_many_tokens
from unspool.server.schemas import DEFAULT_TOKENS
from unspool.server.scores import ScoredFeed
from unspool.server.service import Service
from unspool.server.texts import Texts, make_writing, why_ended

#: What null stands for.
ASSUMED = {"n": 1, "max_tokens": DEFAULT_TOKENS, "stream": False, "echo": False}


async def complete(service: Service, asked: Asked) -> ASGIApp:
    """Texts that follow prompts; as events while they are written, where `stream` is set."""
    model, body = find_model(service.models, asked.body["model"]), asked.body
    model.demand_text()
    body |= {name: value for name, value in ASSUMED.items() if body[name] is None}
    given, most = body["prompt"], service.settings.max_tokens
    prompts = given if isinstance(given, list) and not isinstance(given[0], int) else [given]
    completion = Completion(model, body, prompts, await read_prompts(model, prompts, most))
    completion.check(most)
    texts = await completion.start(asked.deadline)
    if body["stream"]:
        return EventStream(completion.events(texts), texts.close)
    try:
        return await answer_large(await completion.whole(texts))
    finally:
        await texts.close()


class Completion:
    """One request: its prompts, and the choices that come of it.

    Args:
        model: A language model.
        body: That of the request, checked.
        given: The prompts as they were given, texts or ids.
        prompts: The ids of each.
    """

    def __init__(
        self, model: ServedModel, body: dict[str, Any], given: Sequence[Any], prompts: Sequence[list[int]]
    ) -> None:
        self.model, self.body, self.given, self.prompts = model, body, given, prompts
        self._scores: list[list[Token]] = []  # of the tokens of each prompt, where the answer repeats them
        self._id, self._created = f"cmpl-{secrets.token_urlsafe(12)}", int(time.time())

    def check(self, most: int) -> None:
        """Refuse what has too many tokens: those of the prompts and those to be written."""
        total = self._prompt_tokens + len(self.prompts) * self.body["n"] * self.body["max_tokens"]
        if total > most:
            raise too_many_tokens(total, most)

    async def start(self, deadline: float) -> Texts:
        """Read the prompts and begin to write."""
        arrivals: Arrivals = asyncio.Queue()
        jobs: list[Write] = []
        for prompt in self.prompts:
            session = await self._read(prompt)
            jobs += [self._job(session, arrivals, len(jobs) + number) for number in range(self.body["n"])]
        texts = Texts(self.model.batcher, jobs, arrivals, deadline)
        await texts.submit()
        return texts

    async def _read(self, prompt: list[int]) -> Session:
        """A session that has read a prompt."""
        session, inputs = self.model.player.start(), self.model.player.encode(prompt)
        if self.body["echo"] and self.body["logprobs"] is not None:
            job = ScoredFeed(session, inputs, self.body["logprobs"])
            await self.model.batcher.run(job)
            self._scores.append(job.scores)
        else:
            await self.model.batcher.run(Feed(session, inputs))
        return session

    def _job(self, session: Session, arrivals: Arrivals, index: int) -> Write:
        own = session.fork()
        writing = make_writing(self.model.player, own, self.body, index)
        return Write(own, writing, arrivals, index, self.body["logprobs"])

    async def whole(self, texts: Texts) -> dict[str, Any]:
        """The answer when all is written."""
        choices = [self._begin(job.index) for job in texts.jobs]
        async for piece in texts.pieces():
            choices[piece.job.index].add(piece.text, piece.token)
        shown = [choice.shown(job.index, why_ended(job)) for choice, job in zip(choices, texts.jobs, strict=True)]
        return self._frame(shown) | {"usage": self._usage(texts)}

    async def events(self, texts: Texts) -> AsyncIterator[dict[str, Any]]:
        """What comes, piece by piece."""
        usage = bool((self.body["stream_options"] or {}).get("include_usage"))
        lengths = [len(self._echo(job.index)) for job in texts.jobs]
        for job in texts.jobs if self.body["echo"] else ():
            yield self._frame([self._begin(job.index).shown(job.index, None)])
        async for job, text, token in texts.pieces():
            if token is not None and not text and token.log_probability is None:
                continue
            choice = Choice("", self.model.player.decode, lengths[job.index])
            choice.add(text, token)
            lengths[job.index] += len(text)
            yield self._frame([choice.shown(job.index, why_ended(job) if token is None else None)])
        if usage:
            yield self._frame([]) | {"usage": self._usage(texts)}

    def _frame(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        own = {"id": self._id, "object": "text_completion", "created": self._created, "model": self.model.name}
        return {**own, "choices": choices}

    def _usage(self, texts: Texts) -> dict[str, int]:
        written = sum(len(job.writing.tokens) for job in texts.jobs)
        read = self._prompt_tokens
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}

    @property
    def _prompt_tokens(self) -> int:
        return sum(map(len, self.prompts))

    def _begin(self, index: int) -> Choice:
        """A choice before anything is written: it has the prompt, where the answer repeats it."""
        choice, text = Choice("", self.model.player.decode), self._echo(index)
        if self._scores:
            place = index // self.body["n"]
            scores = self._scores[place][self._lead(place) :]
            pieces = self.model.player.pieces([score.token for score in scores])
            for piece, score in zip(pieces, scores, strict=True):
                choice.add(piece, score, told=True)
        choice.text = text
        return choice

    def _lead(self, place: int) -> int:
        """How many tokens a model of lines reads before those of the prompt."""
        given = self.given[place]
        own = len(self.model.player.encode(given)) if isinstance(given, str) else len(given)
        return len(self.prompts[place]) - own

    def _echo(self, index: int) -> str:
        """The prompt of a choice, where the answer repeats it."""
        if not self.body["echo"]:
            return ""
        given = self.given[index // self.body["n"]]
        return given if isinstance(given, str) else self.model.player.decode(given)


class Choice:
    """One text, and the log-probabilities of its tokens where they are wanted.

    Args:
        text: What it begins with.
        decode: From ids to text.
        offset: How many characters were given before.
    """

    def __init__(self, text: str, decode: Callable[[list[int]], str], offset: int = 0) -> None:
        self.text, self._decode, self._offset = text, decode, offset
        self._names, self._log_p, self._places = list[str](), list[float | None](), list[int]()
        self._likeliest: list[dict[str, float] | None] = []

    def add(self, text: str, token: Token | None, told: bool = False) -> None:
        """Add a token and the text that is certain with it; one that is `told` may have no log-probability."""
        if token is not None and (told or token.log_probability is not None):
            self._places.append(self._offset + len(self.text))
            self._names.append(self._decode([token.token]))
            self._log_p.append(token.log_probability)
            ranked = reversed(token.likeliest)  # of tokens with the same text the likeliest counts
            named = {self._decode([place]): value for place, value in ranked}
            self._likeliest.append(None if token.log_probability is None else named)
        self.text += text

    def shown(self, index: int, reason: str | None) -> dict[str, Any]:
        """As OpenAI shows it."""
        found = {
            **{"tokens": self._names, "token_logprobs": self._log_p},
            **{"top_logprobs": self._likeliest, "text_offset": self._places},
        }
        return {
            **{"index": index, "text": self.text, "finish_reason": reason},
            "logprobs": found if self._names else None,
        }
