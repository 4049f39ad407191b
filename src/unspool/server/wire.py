"""What happens on the wire below the routes: requests that are no HTTP, and messages that are no UTF-8."""

from __future__ import annotations

from http import HTTPStatus

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from unspool.server.answers import HEADERS
from unspool.server.refusals import RefusalError
from unspool.server.strict_json import dump


def as_http(refusal: RefusalError) -> bytes:
    """A refusal as an HTTP/1.1 answer, for one whose request no route has seen; the connection is closed after it."""
    body = dump(refusal.body())
    own = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    lines = [f"{name}: {value}" for name, value in {**HEADERS, **refusal.headers, **own}.items()]
    first = f"HTTP/1.1 {refusal.status} {HTTPStatus(refusal.status).phrase}"
    return "\r\n".join([first, *lines, "", ""]).encode() + body


class StrictHttp(H11Protocol):
    """HTTP whose refusals have the one form also where a request cannot be read."""

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Refuse what is no HTTP, and close the connection."""
        message = "The request is not HTTP/1.1, or its head is too large."
        self.transport.write(as_http(RefusalError(400, message, "invalid_http")))
        self.transport.close()


class StrictSocket(WebSocketsSansIOProtocol):
    """WebSockets that are closed with 1007 after a text that is not UTF-8, without a trace in the log."""

    def send_receive_event_to_app(self) -> None:
        """Hand over a whole message."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            data = b"".join(self.frames)
            try:
                data.decode()
            except UnicodeDecodeError:
                self.conn.fail(1007, "not UTF-8")
                self.handle_parser_exception()
                return
            self.frames = [data]
        super().send_receive_event_to_app()
