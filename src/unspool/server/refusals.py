"""Refusals: what the server does not do, in one JSON form for every route."""

from __future__ import annotations

import errno
import logging
from typing import Any

from unspool.errors import UnspoolError

log = logging.getLogger("unspool.server")

#: Seconds after which one who was refused for want of room may ask again.
RETRY_AFTER = 1
#: That a process, or the machine, has no file descriptor left.
EXHAUSTED = (errno.EMFILE, errno.ENFILE)

TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "overloaded_error",
}


class RefusalError(Exception):
    """A request that is not served.

    Args:
        status: The HTTP status.
        message: What is wrong, and what to do.
        code: A short name of the reason, for programs.
        param: The place in the body that is wrong.
        headers: More headers of the answer.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        wait = {"retry-after": str(RETRY_AFTER)} if status in (429, 503) else {}
        self.headers = {**wait, **(headers or {})}

    def body(self) -> dict[str, Any]:
        """The JSON of the answer, in the form of OpenAI's errors."""
        kind = TYPES.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def unusable(message: str, param: str | None = None, code: str = "invalid_value") -> RefusalError:
    """A value in a body that cannot be used."""
    return RefusalError(422, message, code, param)


def overloaded(message: str, code: str = "queue_full") -> RefusalError:
    """A request that there is no room or time for now."""
    return RefusalError(503, message, code)


def explain(error: Exception) -> RefusalError:
    """What a client hears of an error; one of the server's own is logged."""
    refusal = _as_refusal(error)
    if refusal.status == 500:
        log.error("a request failed", exc_info=error)
    return refusal


def _as_refusal(error: Exception) -> RefusalError:
    """An error of unspool is about what the client sent, any other is the server's."""
    if isinstance(error, RefusalError):
        return error
    if isinstance(error, UnspoolError):
        return unusable(str(error))
    if isinstance(error, OSError) and error.errno in EXHAUSTED:
        return overloaded("The server has no file descriptor left. Try again later.", "connections")
    return RefusalError(500, "The server failed; its log says how.", "internal_error")
