"""The web server and its connections: uvicorn's own, with a limit on the time that the head of a request may take."""

import asyncio

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0  # from the connection, or the last answer, to the end of a request's headers
SHUTDOWN_SECONDS = 10  # for the requests that are still open


class Connection(H11Protocol):
    """Closes a connection whose next request does not begin in time, which uvicorn keeps until the client goes away.

    It also closes one whose request turns out to be malformed after its answer has begun. uvicorn tries to answer a second time.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._limit_head()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._limit_head()

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request; the application, which may be answering it, is not heard any more."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _limit_head(self) -> None:
        last = self.cycle

        def close() -> None:
            if self.cycle is last:
                self.transport.close()

        self.loop.call_later(HEAD_SECONDS, close)


def make_server(app: FastAPI) -> uvicorn.Server:
    """Return a server of an application. Without a log of its own, its errors still reach standard error."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=Connection,
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
    )
