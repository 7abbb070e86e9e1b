"""HTTP/3 client on loopback, by the third-party library aioquic."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, QuicEvent, StreamReset
from aioquic.tls import SessionTicket

PATIENCE = 10.0  # seconds


@dataclass
class Http3Response:
    """Response as far as received; `is_whole` or `is_reset` once it has ended."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_complete: bool = False
    is_reset: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def until_ended(self) -> "Http3Response":
        return await self.until(lambda: self.is_complete or self.is_reset)

    async def until(self, condition: Callable[[], bool]) -> "Http3Response":
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await self.changed.wait()
                self.changed.clear()
        return self


class Http3Client(QuicConnectionProtocol):
    """One connection."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.http = H3Connection(self._quic)
        self.answers: defaultdict[int, Http3Response] = defaultdict(Http3Response)

    def send(
        self, authority: str, path: str = "/", method: str = "GET", headers: Iterable[tuple[str, str]] = (), body: bytes = b""
    ) -> Http3Response:
        """Send a request and return its response, which is filled in as it arrives."""
        stream = self._quic.get_next_available_stream_id()
        pseudo = [(":method", method), (":scheme", "https"), (":authority", authority), (":path", path)]
        self.http.send_headers(stream, [(name.encode(), value.encode()) for name, value in [*pseudo, *headers]], end_stream=not body)
        if body:
            self.http.send_data(stream, body, end_stream=True)
        self.transmit()
        return self.answers[stream]

    async def get(self, authority: str, path: str = "/", **more) -> Http3Response:
        return await self.send(authority, path, **more).until_ended()

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, StreamReset):
            self._note(self.answers[event.stream_id], is_reset=True)
        if isinstance(event, ConnectionTerminated):
            for answer in self.answers.values():
                self._note(answer, is_reset=not answer.is_complete)
        for each in self.http.handle_event(event):
            if isinstance(each, HeadersReceived):
                headers = {name.decode(): value.decode() for name, value in each.headers}
                answer = self.answers[each.stream_id]
                answer.status, answer.headers = int(headers.get(":status", answer.status)), answer.headers | headers
                self._note(answer, is_whole=each.stream_ended)
            elif isinstance(each, DataReceived):
                answer = self.answers[each.stream_id]
                answer.body += each.data
                self._note(answer, is_whole=each.stream_ended)

    def _note(self, answer: Http3Response, *, is_whole: bool = False, is_reset: bool = False) -> None:
        answer.is_complete, answer.is_reset = answer.is_complete or is_whole, answer.is_reset or is_reset
        answer.changed.set()


@asynccontextmanager
async def http3_client(
    port: int, server_name: str, authority: Path, *, idle_timeout: float = PATIENCE, tickets: list[SessionTicket] | None = None
) -> AsyncIterator[Http3Client]:
    """Connect to loopback; session tickets are added to `tickets`. Raises ConnectionError if QUIC is not served."""
    configuration = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=True, server_name=server_name, idle_timeout=idle_timeout)
    configuration.load_verify_locations(str(authority))
    keep = None if tickets is None else tickets.append
    connected = connect("127.0.0.1", port, configuration=configuration, create_protocol=Http3Client, session_ticket_handler=keep)
    async with connected as client:
        assert isinstance(client, Http3Client)
        yield client
