"""Completions in the form of OpenAI: a prompt in, texts that follow it out."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.types import ASGIApp

from unspool.runtime.session import Session
from unspool.server.answers import Asked, EventStream, answer
from unspool.server.jobs import Arrivals, Feed, Token, Write
from unspool.server.models import ServedModel, find_model
from unspool.server.refusals import unusable
from unspool.server.service import Service
from unspool.server.texts import Texts, make_writing, why_ended


async def complete(service: Service, asked: Asked) -> ASGIApp:
    """Texts that follow prompts; as events while they are written, where `stream` is set."""
    model = find_model(service.models, asked.body["model"])
    model.demand_text()
    completion = Completion(model, asked.body)
    completion.check(service.settings.max_tokens)
    texts = await completion.start(asked.deadline)
    if asked.body["stream"]:
        return EventStream(completion.events(texts), texts.close)
    try:
        return answer(await completion.whole(texts))
    finally:
        await texts.close()


class Completion:
    """One request: its prompts, and the choices that come of it.

    Args:
        model: A language model.
        body: That of the request, checked.
    """

    def __init__(self, model: ServedModel, body: dict[str, Any]) -> None:
        if body["echo"] and body["logprobs"] is not None:
            raise unusable("`echo` and `logprobs` together are not supported. Leave one out.", "echo")
        self.model, self.body = model, body
        generator = model.player.generator()
        given = body["prompt"]
        several = isinstance(given, list) and not isinstance(given[0], int)
        self.given: list[Any] = given if several else [given]
        self.prompts = [generator.prompt(one) if isinstance(one, str) else list(one) for one in self.given]
        self._id, self._created = f"cmpl-{secrets.token_urlsafe(12)}", int(time.time())

    def check(self, most: int) -> None:
        """Refuse what has too many tokens: those of the prompts and those to be written."""
        known = self.model.player.tokens
        if any(token >= known for prompt in self.prompts for token in prompt):
            raise unusable(f"`prompt` has an id that is not below {known}, the size of the vocabulary.", "prompt")
        total = self._prompt_tokens + len(self.prompts) * self.body["n"] * self.body["max_tokens"]
        if total > most:
            message = f"The request has {total:,} tokens, prompts and completions together; {most:,} are allowed."
            raise unusable(message, "max_tokens", "too_many_tokens")

    async def start(self, deadline: float) -> Texts:
        """Read the prompts and begin to write."""
        arrivals: Arrivals = asyncio.Queue()
        jobs: list[Write] = []
        for prompt in self.prompts:
            session = self.model.player.start()
            await self.model.batcher.run(Feed(session, self.model.player.encode(prompt)))
            jobs += [self._job(session, arrivals, len(jobs) + number) for number in range(self.body["n"])]
        texts = Texts(self.model.batcher, jobs, arrivals, deadline)
        await texts.submit()
        return texts

    def _job(self, session: Session, arrivals: Arrivals, index: int) -> Write:
        own = session.fork()
        writing = make_writing(self.model.player, own, self.body, index)
        return Write(own, writing, arrivals, index, self.body["logprobs"])

    async def whole(self, texts: Texts) -> dict[str, Any]:
        """The answer when all is written."""
        choices = [Choice(self._echo(job.index), self.model.player.decode) for job in texts.jobs]
        async for piece in texts.pieces():
            choices[piece.job.index].add(piece.text, piece.token)
        shown = [choice.shown(job.index, why_ended(job)) for choice, job in zip(choices, texts.jobs, strict=True)]
        return self._frame(shown) | {"usage": self._usage(texts)}

    async def events(self, texts: Texts) -> AsyncIterator[dict[str, Any]]:
        """What comes, piece by piece."""
        usage = bool((self.body["stream_options"] or {}).get("include_usage"))
        lengths = [0] * len(texts.jobs)
        for job in texts.jobs if self.body["echo"] else ():
            yield self._frame([Choice(self._echo(job.index), self.model.player.decode).shown(job.index, None)])
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
        self._text, self._decode, self._offset = text, decode, offset
        self._names, self._log_p, self._places = list[str](), list[float](), list[int]()
        self._likeliest: list[dict[str, float]] = []

    def add(self, text: str, token: Token | None) -> None:
        """Add a token and the text that is certain with it."""
        if token is not None and token.log_probability is not None:
            self._places.append(self._offset + len(self._text))
            self._names.append(self._decode([token.token]))
            self._log_p.append(token.log_probability)
            ranked = reversed(token.likeliest)  # of tokens with the same text the likeliest counts
            self._likeliest.append({self._decode([place]): value for place, value in ranked})
        self._text += text

    def shown(self, index: int, reason: str | None) -> dict[str, Any]:
        """As OpenAI shows it."""
        found = {
            **{"tokens": self._names, "token_logprobs": self._log_p},
            **{"top_logprobs": self._likeliest, "text_offset": self._places},
        }
        return {
            **{"index": index, "text": self._text, "finish_reason": reason},
            "logprobs": found if self._names else None,
        }
