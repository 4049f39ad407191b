"""The one table of routes: /openapi.json, the checks of bodies and the dispatch are made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.types import ASGIApp

from unspool.server import (
    completions,
    explain_calls,
    general_calls,
    page_calls,
    predictions,
    run_calls,
    schemas,
    session_calls,
)
from unspool.server.answers import Asked
from unspool.server.schemas import Schema
from unspool.server.service import Service
from unspool.server.settings import ServeSettings

JSON, BYTES, TEXT, HTML = "application/json", "application/octet-stream", "text/plain", "text/html"


@dataclass(frozen=True)
class Route:
    """One method of one path.

    Attributes:
        method: Of HTTP.
        path: With names in braces.
        call: Answers.
        answer: The schema of what it answers; None: nothing, or what is not JSON.
        body: The schema of what it reads; None: nothing, or bytes.
        reads: The media type of the body; None: there is none.
        gives: The media type of the answer.
        status: Of a request that went well.
        may_be_empty: Whether the body may be left out, as an object without names.
        open: Whether it needs no token.
        streams: Whether it answers with events on demand.
    """

    method: str
    path: str
    call: Callable[[Service, Asked], Awaitable[ASGIApp]]
    answer: Schema | None = None
    body: Schema | None = None
    reads: str | None = None
    gives: str = JSON
    status: int = 200
    may_be_empty: bool = False
    open: bool = False
    streams: bool = False

    @property
    def summary(self) -> str:
        """What it does, in a sentence."""
        return (self.call.__doc__ or "").strip()


def make_routes(settings: ServeSettings) -> tuple[Route, ...]:
    """All routes of a server with these limits."""
    one, model = "/v1/sessions/{id}", "/v1/models/{model}"
    calls = session_calls
    return (
        Route("GET", "/", page_calls.show_page, gives=HTML, open=True),
        Route("GET", "/page/{file}", page_calls.show_file, gives=TEXT, open=True),
        Route("GET", "/health", general_calls.tell_health, schemas.STATUS, open=True),
        Route("GET", "/ready", general_calls.tell_readiness, schemas.STATUS, open=True),
        Route("GET", "/metrics", general_calls.show_metrics, gives=TEXT),
        Route("GET", "/v1/models", general_calls.list_models, schemas.MODELS),
        Route("GET", model, general_calls.show_model, schemas.MODEL),
        Route("GET", f"{model}/about", run_calls.show_about, schemas.ABOUT),
        Route("GET", f"{model}/curves", run_calls.show_curves, schemas.CURVES),
        Route("GET", f"{model}/pages/{{page}}", run_calls.show_report, gives=HTML),
        _plain_post(f"{model}/pages/{{page}}", run_calls.link_report, schemas.LINK),
        Route("GET", "/v1/pages/{model}/{page}/{ticket}", run_calls.show_linked_report, gives=HTML, open=True),
        _post("/v1/predict", predictions.predict, schemas.predict_body(settings), schemas.PREDICTIONS),
        _post(
            "/v1/completions", completions.complete, schemas.completion_body(settings), schemas.COMPLETION, 200, True
        ),
        _post("/v1/trace", explain_calls.trace, schemas.explain_body(settings), schemas.EXPLAINED),
        _post("/v1/importance", explain_calls.weigh, schemas.explain_body(settings), schemas.IMPORTANCE),
        _post("/v1/tokens", general_calls.encode, schemas.tokens_body(), schemas.TOKENS),
        _post("/v1/sessions", calls.open_session, schemas.session_body(), schemas.SESSION, 201),
        Route("GET", one, calls.show_session, schemas.SESSION),
        Route("DELETE", one, calls.delete_session, status=204),
        _post(f"{one}/feed", calls.feed_session, schemas.feed_body(settings), schemas.OUTPUT),
        _post(f"{one}/step", calls.step_session, schemas.step_body(settings), schemas.OUTPUTS),
        _post(
            f"{one}/generate", calls.generate_in_session, schemas.generate_body(settings), schemas.WRITTEN, 200, True
        ),
        _plain_post(f"{one}/fork", calls.fork_session, schemas.SESSION, 201),
        Route("GET", f"{one}/state", calls.save_session, gives=BYTES),
        Route("PUT", f"{one}/state", calls.restore_session, schemas.SESSION, reads=BYTES),
    )


def _post(
    path: str,
    call: Callable[[Service, Asked], Awaitable[ASGIApp]],
    body: Schema,
    answer: Schema,
    status: int = 200,
    streams: bool = False,
) -> Route:
    return Route("POST", path, call, answer, body, JSON, status=status, streams=streams)


def _plain_post(
    path: str, call: Callable[[Service, Asked], Awaitable[ASGIApp]], answer: Schema, status: int = 200
) -> Route:
    """One that needs no body, and refuses what has names."""
    return Route("POST", path, call, answer, schemas.record({}), JSON, status=status, may_be_empty=True)
