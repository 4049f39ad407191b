"""What can be asked of the server itself: its models, its health, its metrics."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from unspool.server.answers import Asked, answer, blob
from unspool.server.models import find_model
from unspool.server.refusals import overloaded
from unspool.server.service import Service


async def list_models(service: Service, asked: Asked) -> Response:  # noqa: ARG001
    """The models that are served."""
    return answer({"object": "list", "data": [model.describe() for model in service.models.values()]})


async def show_model(service: Service, asked: Asked) -> Response:
    """One of them."""
    return answer(find_model(service.models, asked.names["model"]).describe())


async def encode(service: Service, asked: Asked) -> Response:
    """The tokens of a text, as ids that a session can be fed in parts."""
    model = find_model(service.models, asked.body.get("model"))
    model.demand_text()
    ids = await asyncio.to_thread(model.player.encode, asked.body["input"])
    return answer({"model": model.name, "tokens": ids[:, 0].tolist()})


async def tell_health(service: Service, asked: Asked) -> Response:  # noqa: ARG001
    """That the process answers."""
    return answer({"status": "ok"})


async def tell_readiness(service: Service, asked: Asked) -> Response:  # noqa: ARG001
    """Whether requests would be served."""
    if not service.ready:
        raise overloaded("The server is closing, or a worker has ended.", "not_ready")
    if not await service.sessions.ready():
        raise overloaded("The store of sessions does not answer.", "store_unavailable")
    return answer({"status": "ready"})


async def show_metrics(service: Service, asked: Asked) -> Response:  # noqa: ARG001
    """Metrics in Prometheus' text format."""
    return blob(service.metrics.text(await service.sessions.read_metrics()), "text/plain; version=0.0.4; charset=utf-8")
