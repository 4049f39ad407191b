"""The OpenAPI document of a server, from its table of routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from unspool.server.routes import JSON, Route
from unspool.server.schemas import ERROR

#: What any route may answer, and why.
REFUSALS = {
    400: "The body is not JSON in UTF-8, or the request is malformed.",
    401: "The token is missing or wrong.",
    403: "The Host or the Origin is not allowed.",
    404: "There is no such model, session or route.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    415: "The body is of another media type.",
    422: "The body has a value that cannot be used; `param` says where.",
    429: "There are too many sessions.",
    431: "There are too many headers.",
    503: "There is no room or time now; Retry-After says when to ask again.",
}
#: Those of routes that read no body and need no token.
PLAIN = (400, 403, 404, 431, 503)


def describe(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """The document.

    Args:
        routes: Those of the server.
        version: Of unspool.
    """
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "unspool serve", "version": version, "description": "Recurrent models as a service."},
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", route.path)
    found: dict[str, Any] = {
        "operationId": route.call.__name__,
        "summary": route.summary,
        "security": [] if route.open else [{"token": []}, {}],
        "responses": {str(route.status): _success(route), **_refusals(route)},
    }
    if names:
        found["parameters"] = [
            {"name": one, "in": "path", "required": True, "schema": {"type": "string"}} for one in names
        ]
    if route.reads is not None:
        schema = route.body if route.body is not None else {"type": "string", "format": "binary"}
        found["requestBody"] = {"required": not route.may_be_empty, "content": {route.reads: {"schema": schema}}}
    return found


def _success(route: Route) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if route.answer is not None:
        content[route.gives] = {"schema": route.answer}
    elif route.status != 204:
        content[route.gives] = {"schema": {"type": "string"}}
    if route.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": route.summary, **({"content": content} if content else {})}


def _refusals(route: Route) -> dict[str, Any]:
    error = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    which = [status for status in REFUSALS if not route.open or status in PLAIN]
    return {str(status): {"description": REFUSALS[status], "content": error} for status in which}
