"""The page in the browser: its files, by a fixed list of names, under a strict policy."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.responses import Response

from unspool.server.answers import HEADERS, Asked
from unspool.server.refusals import RefusalError
from unspool.server.service import Service

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
MEDIA = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


async def show_page(service: Service, asked: Asked) -> Response:  # noqa: ARG001
    """The page in which people use the models."""
    return _file("index.html")


async def show_file(service: Service, asked: Asked) -> Response:  # noqa: ARG001
    """A script, the style sheet or the icon of the page."""
    return _file(asked.names["file"])


@cache
def _names() -> frozenset[str]:
    """The files of the page."""
    folder = files("unspool.server").joinpath("page")
    return frozenset(one.name for one in folder.iterdir() if one.name.rpartition(".")[2] in MEDIA)


def _read(name: str) -> bytes:
    return files("unspool.server").joinpath("page", name).read_bytes()


def _file(name: str) -> Response:
    if name not in _names():
        raise RefusalError(404, "The page has no such file.", "file_not_found")
    headers = {**HEADERS, "content-security-policy": POLICY, "referrer-policy": "no-referrer"}
    return Response(_read(name), 200, headers, f"{MEDIA[name.rpartition('.')[2]]}; charset=utf-8")
