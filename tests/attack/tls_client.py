"""A TLS client whose first message can be bent and cut before it is sent."""

import asyncio
import ssl
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from OpenSSL import SSL

from tests.support.client_certificates import Issued

VERSIONS = {"1.2": SSL.TLS1_2_VERSION, "1.3": SSL.TLS1_3_VERSION}
Bend = Callable[[bytes], Iterable[bytes]]  # the record with the ClientHello -> what is written, each part by itself
RECORD = 5  # bytes of a record's header


def whole(record: bytes) -> Iterable[bytes]:
    return [record]


def context(version: str, presented: Sequence[Issued] = (), protocols: Sequence[bytes] = ()) -> SSL.Context:
    made = SSL.Context(SSL.TLS_CLIENT_METHOD)
    made.set_min_proto_version(VERSIONS[version])
    made.set_max_proto_version(VERSIONS[version])
    made.set_session_cache_mode(SSL.SESS_CACHE_CLIENT)
    for number, each in enumerate(presented):
        (made.add_extra_chain_cert if number else made.use_certificate)(each.certificate)
    if protocols:
        made.set_alpn_protos(list(protocols))
    if presented:
        made.use_privatekey(presented[0].key)
    return made


def client_hello(server_name: bytes | None, version: str = "1.3") -> bytes:
    """The record of one that is sent nowhere."""
    return Client(0, context(version), server_name).hello()


def message_of(records: bytes) -> bytes:
    message, rest = b"", records
    while rest:
        size = RECORD + int.from_bytes(rest[3:RECORD], "big")
        message += rest[RECORD:size]
        rest = rest[size:]
    return message


def in_records(record: bytes, cuts: Sequence[int], version: bytes = b"\x03\x01") -> list[bytes]:
    """The message of this record (or these) in several, cut before the bytes with these numbers."""
    message = message_of(record)
    ends = [*cuts, len(message)]
    parts = [message[start:end] for start, end in zip([0, *cuts], ends, strict=True) if end > start]
    return [b"\x16" + version + struct.pack(">H", len(part)) + part for part in parts]


@dataclass(frozen=True)
class Received:
    """`problem`: why there is no answer; "" where there is one."""

    raw: bytes
    problem: str = ""

    @property
    def status(self) -> int:
        """0 for no answer."""
        return int(self.raw[9:12]) if self.raw.startswith(b"HTTP/1.1 ") else 0


class Client:
    """`pause`: seconds between the parts of the first message, so that gate reads them one by one.

    `patience`: seconds without data after which a client leaves.
    `own`: shown on this connection, whatever the context shows.  `session`: one of the same context, to be resumed.
    `waits_for`: after the first message nothing is sent before this is set.
    """

    def __init__(
        self,
        port: int,
        using: SSL.Context,
        server_name: bytes | None,
        *,
        own: Issued | None = None,
        session: SSL.Session | None = None,
        pause: float = 0.0,
        patience: float | None = None,
        waits_for: asyncio.Event | None = None,
    ):
        self._port, self._pause, self._patience, self._waits_for = port, pause, patience, waits_for
        self.tls = SSL.Connection(using, None)
        self.tls.set_connect_state()
        if server_name is not None:
            self.tls.set_tlsext_host_name(server_name)
        if own is not None:
            self.tls.use_certificate(own.certificate)
            self.tls.use_privatekey(own.key)
        if session is not None:
            self.tls.set_session(session)

    def hello(self) -> bytes:
        with suppress(SSL.WantReadError):
            self.tls.do_handshake()
        return self.tls.bio_read(1 << 16)

    async def connect(self, bend: Bend = whole) -> str:
        """Why there is no connection; "" where there is one."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            for number, part in enumerate(bend(self.hello())):
                if number and self._pause:
                    await asyncio.sleep(self._pause)
                self._writer.write(part)
            if self._waits_for is not None:
                await self._waits_for.wait()
            await self._until(self.tls.do_handshake)
        except (SSL.Error, OSError, EOFError) as error:
            return f"{type(error).__name__} {error}"
        return ""

    async def ask(self, request: bytes) -> Received:
        """One answer, whole: it says its length."""
        received = b""
        try:
            self.tls.send(request)
            while not _is_whole(received):
                received += await self._until(lambda: self.tls.recv(1 << 16))
        except (SSL.Error, OSError, EOFError) as error:
            return Received(received, f"{type(error).__name__} {error}")
        return Received(received)

    async def _until(self, step: Callable[[], bytes | None]) -> bytes:
        while True:
            try:
                done = step() or b""
            except SSL.WantReadError:
                await self._flush()
                data = await asyncio.wait_for(self._reader.read(1 << 16), self._patience)
                if not data:
                    raise EOFError("gate has ended it") from None
                self.tls.bio_write(data)
            else:
                await self._flush()
                return done

    async def _flush(self) -> None:
        with suppress(SSL.WantReadError):
            while data := self.tls.bio_read(1 << 16):
                self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> None:
        self.tls.set_shutdown(SSL.SENT_SHUTDOWN | SSL.RECEIVED_SHUTDOWN)  # OpenSSL offers no session of a connection that broke
        self._writer.close()
        with suppress(OSError, ssl.SSLError):
            await self._writer.wait_closed()


def _is_whole(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    if not end:
        return False
    length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
    return len(body) >= int(length.partition(b":")[2])
