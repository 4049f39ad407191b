"""Where a server logs: on standard error."""

from __future__ import annotations

import logging
import sys

#: Logger → the form of its lines, and the least that it tells. uvicorn warns of every client that sends garbage.
LOGS = {
    "unspool.access": ("%(message)s", logging.INFO),
    "unspool.server": ("%(levelname)s %(message)s", logging.INFO),
    "uvicorn.error": ("%(levelname)s %(message)s", logging.ERROR),
    "asyncio": ("%(levelname)s %(message)s", logging.ERROR),
}
#: What asyncio says, with a trace, whenever a connection cannot be accepted; the socket tells it once per minute.
NO_DESCRIPTOR = "socket.accept() out of system resource"


def log_to_stderr() -> None:
    """Requests as JSON, one per line, and failures of the server."""
    for name, (shape, level) in LOGS.items():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(shape))
        handler.addFilter(lambda record: not record.getMessage().startswith(NO_DESCRIPTOR))
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
