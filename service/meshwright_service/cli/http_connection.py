"""HTTP connections with a timeout for the request line and the headers.

Uvicorn closes connections that idle between two requests, but waits without limit for the first
request and for the rest of any headers. A client could so hold thousands of connections.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from meshwright_service.api.problem_details import MEDIA_TYPE
from meshwright_service.common.errors import NotHttp

LONGEST = 1 << 16  # bytes of a line and headers; chosen: 500 open modules of 100 letters in a URL


class Parser(h11.Connection):
    """HTTP/1.1 parser of a server that rejects a line and headers of more than LONGEST bytes.

    h11 limits only incomplete headers, and accepts complete headers of any length.
    """

    def __init__(self) -> None:
        super().__init__(h11.SERVER, LONGEST)

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        if self.their_state is not h11.IDLE:
            return super().next_event()
        before = len(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Request) and before - len(self.trailing_data[0]) > LONGEST:
            raise h11.RemoteProtocolError("the headers are too long", error_status_hint=431)
        return event


class BoundedConnection(H11Protocol):
    """HTTP/1.1 connection with a header timeout.

    headers_s: from the connection, or from the first byte of a later request.
    """

    def __init__(self, *args: Any, headers_s: float, **more: Any) -> None:
        super().__init__(*args, **more)
        self.conn = Parser()
        self._headers_s = headers_s
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # Uvicorn's own signature
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self.conn.trailing_data[0]:
            self._start_timer()

    def send_400_response(self, msg: str) -> None:
        """Send a problem document in place of Uvicorn's plain text."""
        error = NotHttp(f"{msg} A line and headers of {LONGEST} bytes at most are read.")
        headers = [
            ("Content-Type", MEDIA_TYPE), ("Cache-Control", "no-store"), ("Connection", "close"),
        ]  # fmt: skip
        for event in (
            h11.Response(status_code=error.status, headers=headers),
            h11.Data(data=json.dumps(error.problem()).encode()),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self._headers_s, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def connection(headers_s: float) -> type[asyncio.Protocol]:
    """The connection class of a server with this header timeout."""

    class Timed(BoundedConnection):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, headers_s=headers_s, **more)

    return cast(type[asyncio.Protocol], Timed)
