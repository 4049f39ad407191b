"""Where a server logs: on standard error."""

from __future__ import annotations

import logging
import sys


def log_to_stderr() -> None:
    """Requests as JSON, one per line, and failures of the server."""
    for name, shape in (("unspool.access", "%(message)s"), ("unspool.server", "%(levelname)s %(message)s")):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter(shape))
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)
