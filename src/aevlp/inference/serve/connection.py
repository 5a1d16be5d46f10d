"""The web server and its connections: uvicorn's own, with limits on their number and on the time of a request's head."""

import asyncio
from typing import cast

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from aevlp.inference.serve.server import BACKLOG

CONNECTIONS = 128  # at once; with those that are accepted at once, fewer than the 256 files that some systems let a process open
HEAD_SECONDS = 10.0  # from the connection, or the last answer, to the end of a request's headers
SHUTDOWN_SECONDS = 10  # for the requests that are still open


class Connection(H11Protocol):
    """Closes a connection whose next request does not begin in time, which uvicorn keeps until the client goes away.

    It also closes one whose request turns out to be malformed after its answer has begun. uvicorn tries to answer a second time.
    Where there are too many, it closes the one whose client has been silent for longest, so that idle ones keep nobody out.
    uvicorn's own limit (`limit_concurrency`) keeps them open, and refuses the requests of everybody.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request; make room for it."""
        super().connection_made(transport)
        self.last_heard = self.loop.time()
        self._limit_head()
        if len(self.connections) > CONNECTIONS:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Note the time."""
        self.last_heard = self.loop.time()
        super().data_received(data)

    @property
    def waits_for_client(self) -> bool:
        """True while the client has to act: to send the rest of a request, or to read an answer."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY) or self.transport.get_write_buffer_size() > 0

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

    def _make_room(self) -> None:
        """Close one connection: this new one, if all others wait for the server."""
        waiting = [each for each in cast(set[Connection], self.connections) if each.waits_for_client]
        longest = min(waiting, key=lambda each: each.last_heard)
        self.connections.discard(longest)  # now, since others that come in the same moment must find another one
        longest.transport.abort()  # what its client has not read is lost

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
            backlog=BACKLOG,
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
    )
