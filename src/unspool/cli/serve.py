"""unspool serve: trained models as a service over HTTP and WebSocket."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from unspool import __version__
from unspool.cli.terminal import console
from unspool.errors import ArgumentError
from unspool.server.serving import serve as run_server
from unspool.server.settings import ServeSettings, gather


def serve(
    runs: Annotated[list[str] | None, typer.Argument(metavar="RUN", help="Run folders.", show_default=False)] = None,
    host: Annotated[
        str | None, typer.Option(help="The address. Any but this machine's own needs --token. Default: 127.0.0.1.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="The port; 0: any free one. Default: 8000.")] = None,
    token: Annotated[
        list[str] | None,
        typer.Option(help="A token of callers. Repeat for more. UNSPOOL_SERVE_TOKEN keeps it out of the process list."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with these options, and runs.")] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name by which clients call this server. Repeat for more.")
    ] = None,
    max_body: Annotated[int | None, typer.Option(help="Bytes of a body. Default: 1,000,000.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Tokens or steps of a request. Default: 4,096.")] = None,
    max_sessions: Annotated[int | None, typer.Option(help="Sessions at a time. Default: 1,024.")] = None,
    idle: Annotated[float | None, typer.Option(help="Seconds until an unused session goes. Default: 600.")] = None,
    queue: Annotated[int | None, typer.Option(help="Requests that wait for a model. Default: 128.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds of a request. Default: 30.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Sessions that step together. Default: 1,024.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of a model. Default: all cores.")] = None,
    int8: Annotated[bool | None, typer.Option("--int8/--no-int8", help="Matrices in int8.", show_default=False)] = None,
    access_log: Annotated[
        bool | None,
        typer.Option("--access-log/--no-access-log", help="Log requests as JSON. Default: yes.", show_default=False),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that serve. More than one need --redis. Default: 1.")
    ] = None,
    redis: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Keep sessions in Redis. UNSPOOL_SERVE_REDIS keeps its password hidden."),
    ] = None,
) -> None:
    """Serve trained models: predictions, completions as OpenAI's clients ask for them, and sessions that remember.

    Options can be variables, such as UNSPOOL_SERVE_PORT, or stand in a TOML file. Ctrl-C or SIGTERM ends the server
    when requests that have begun are answered.

    **Examples**

    - `unspool serve runs/book`
    - `unspool serve runs/book runs/intents --port 9000`
    - `unspool serve runs/book --workers 4 --redis redis://127.0.0.1:6379/0`
    - `UNSPOOL_SERVE_TOKEN=$(openssl rand -hex 16) unspool serve runs/book --host 0.0.0.0`
    """
    given: dict[str, Any] = {
        **{"runs": tuple(runs or ()), "host": host, "port": port, "token": tuple(token or ())},
        **{"allow_host": tuple(allow_host or ()), "max_body": max_body, "max_tokens": max_tokens},
        **{"max_sessions": max_sessions, "idle": idle, "queue": queue, "timeout": timeout},
        **{"batch_size": batch_size, "threads": threads, "int8": int8, "access_log": access_log},
        **{"workers": workers, "redis": redis},
    }
    with options_spelled():
        chosen = gather(given, os.environ, config)
        folders = chosen.pop("runs", ())
        if not folders:
            raise ArgumentError.of("runs", folders, "names no run", "Give run folders, as in: unspool serve runs/book")
        run_server(folders, ServeSettings(**chosen), __version__, tell)


def tell(line: str) -> None:
    """Say where the server is."""
    console(error=True).print(f"{line} (Ctrl-C ends it)", soft_wrap=True, highlight=False)


@contextmanager
def options_spelled() -> Iterator[None]:
    """Inside, errors name a setting of the server as its option."""
    try:
        yield
    except ArgumentError as error:
        names = "|".join(one.name for one in fields(ServeSettings))
        spelled = re.sub(rf"`({names})`", lambda found: "--" + found[1].replace("_", "-"), str(error))
        raise ArgumentError(spelled) from error
