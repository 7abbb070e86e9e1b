"""What did the upstreams really receive?  Raw servers that keep every byte, read strictly, and share one ledger of markers."""

import asyncio
import re
import threading
from collections import defaultdict
from dataclasses import dataclass, field

# Every request of an attack carries at least one of these, and each is used once.
MARKER = re.compile(rb"EVIL-[0-9a-f]{12}")

_REQUEST_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+ [\x21-\x7e]+ HTTP/1\.1")
_HEADER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+: ?[\t\x20-\x7e\x80-\xff]*")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_CHUNK = re.compile(rb"[0-9a-fA-F]{1,15}\r\n")


@dataclass(eq=False)
class Hit:
    """One request as it arrived.  `head` is raw with its empty line; `body` is unframed."""

    canary: str
    connection: int
    head: bytes
    body: bytearray = field(default_factory=bytearray)
    is_complete: bool = False

    @property
    def line(self) -> bytes:
        return self.head.split(b"\r\n", 1)[0]

    @property
    def method(self) -> bytes:
        return self.line.split(b" ")[0]

    @property
    def target(self) -> bytes:
        return self.line.split(b" ")[1]

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return [(name, value.strip(b" \t")) for name, _, value in (line.partition(b":") for line in self.head.split(b"\r\n")[1:-2])]

    def values(self, name: bytes) -> list[bytes]:
        """Every value whose name folds to `name`: what an application behind CGI would see."""
        return [value for candidate, value in self.headers if fold(candidate) == fold(name)]


@dataclass
class Ledger:
    """Which marker reached which canary, in one look; `violations` are bytes that a strict reader would not take."""

    by_marker: dict[bytes, list[Hit]] = field(default_factory=lambda: defaultdict(list))
    unmarked: list[Hit] = field(default_factory=list)
    violations: list[tuple[str, bytes]] = field(default_factory=list)

    def add(self, hit: Hit) -> None:
        found = set(MARKER.findall(hit.head))
        for marker in found:
            self.by_marker[marker].append(hit)
        if not found:
            self.unmarked.append(hit)

    def hits(self, marker: bytes) -> list[Hit]:
        return list(self.by_marker.get(marker, ()))

    def forget(self) -> None:
        self.by_marker.clear()
        self.unmarked.clear()
        self.violations.clear()


def fold(name: bytes) -> bytes:
    """CGI's reading of a header name, and a little more: case and every byte that is neither letter nor digit are one."""
    return re.sub(rb"[^0-9a-z]", b"-", name.lower())


def plain_answer(hit: Hit) -> bytes:
    """The request's target, so that an answer can be held against its question."""
    body = b"" if hit.method == b"HEAD" else hit.target
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Canary: %b\r\nContent-Length: %d\r\n\r\n"
    return head % (hit.canary.encode(), len(hit.target)) + body


@dataclass(frozen=True)
class Script:
    """The response to one request.  `early`: at its head already, without waiting for its body."""

    answer: bytes
    closes: bool = False
    early: bool = False


class Canary:
    """`scripts` say, by a marker in the head, what a request gets; any other gets plain_answer."""

    def __init__(self, name: str, ledger: Ledger):
        self.name, self.ledger = name, ledger
        self.scripts: dict[bytes, Script] = {}
        self.hits = 0
        self.connections = 0
        self.port = 0

    def script(self, hit: Hit) -> Script:
        if self.scripts:
            for marker in MARKER.findall(hit.head):
                if marker in self.scripts:
                    return self.scripts[marker]
        return Script(plain_answer(hit))


class CanaryServer:
    """All canaries of one run, on one event loop in a separate thread."""

    def __init__(self, canaries: list[Canary]):
        self._canaries = canaries
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="canaries", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._servers = [self._call(self._open(canary)) for canary in self._canaries]

    def stop(self) -> None:
        for server in self._servers:
            self._loop.call_soon_threadsafe(server.close)
        self._call(asyncio.sleep(0))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _open(self, canary: Canary) -> asyncio.Server:
        server = await self._loop.create_server(lambda: _Connection(canary), "127.0.0.1", 0)
        canary.port = server.sockets[0].getsockname()[1]
        return server


class _Connection(asyncio.Protocol):
    def __init__(self, canary: Canary):
        self._canary = canary
        canary.connections += 1
        self._number = canary.connections
        self._buffer = bytearray()
        self._hit: Hit | None = None
        self._left: int | None = 0  # of the body; None while it is chunked
        self._is_dead = False
        self._script = Script(b"")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if self._hit is None and self._buffer and not self._is_dead:
            self._object("a request head that never ended", bytes(self._buffer))

    def data_received(self, data: bytes) -> None:
        if self._is_dead:
            return
        self._buffer += data
        while not self._is_dead and self._step():
            pass

    def _step(self) -> bool:
        if self._hit is None:
            return self._read_head()
        return self._read_chunk() if self._left is None else self._read_sized()

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end == -1:
            return False
        head = bytes(self._buffer[: end + 4])
        del self._buffer[: end + 4]
        self._hit = Hit(self._canary.name, self._number, head)
        self._canary.hits += 1
        self._canary.ledger.add(self._hit)
        self._left = self._framing(head)
        self._script = self._canary.script(self._hit)
        if self._script.early:
            self._answer()
        return True

    def _framing(self, head: bytes) -> int | None:
        line, *lines = head[:-4].split(b"\r\n")
        if not _REQUEST_LINE.fullmatch(line) or not all(map(_HEADER.fullmatch, lines)):
            self._object("a malformed head", head)
        pairs = [(name.lower(), value.strip(b" \t")) for name, _, value in (each.partition(b":") for each in lines)]
        lengths = [value for name, value in pairs if name == b"content-length"]
        codings = [value for name, value in pairs if name == b"transfer-encoding"]
        if len(lengths) + len(codings) > 1 or codings not in ([], [b"chunked"]) or not all(map(_LENGTH.fullmatch, lengths)):
            self._object("ambiguous framing", head)
        if any(
            fold(name) in (b"content-length", b"transfer-encoding") and name not in (b"content-length", b"transfer-encoding")
            for name, _ in pairs
        ):
            self._object("a framing header in disguise", head)
        return None if codings else int(lengths[0]) if lengths and _LENGTH.fullmatch(lengths[0]) else 0

    def _read_sized(self) -> bool:
        assert self._hit is not None
        assert self._left is not None
        taken = self._buffer[: self._left]
        del self._buffer[: len(taken)]
        self._keep(taken)
        self._left -= len(taken)
        return self._end() if self._left == 0 else False

    def _read_chunk(self) -> bool:
        line_end = self._buffer.find(b"\r\n")
        if line_end == -1:
            return False
        if not _CHUNK.fullmatch(self._buffer[: line_end + 2]):
            return self._object("a malformed chunk", bytes(self._buffer[:200]))
        size = int(self._buffer[:line_end], 16)
        whole = line_end + 2 + size + 2
        if len(self._buffer) < whole:
            return False
        if self._buffer[whole - 2 : whole] != b"\r\n":
            return self._object("a chunk without its line end, or with trailers", bytes(self._buffer[:200]))
        self._keep(self._buffer[line_end + 2 : whole - 2])
        del self._buffer[:whole]
        return self._end() if size == 0 else True

    def _keep(self, data: bytearray) -> None:
        assert self._hit is not None
        if len(self._hit.body) < 1 << 20:
            self._hit.body += data

    def _end(self) -> bool:
        assert self._hit is not None
        self._hit.is_complete = True
        if not self._script.early:
            self._answer()
        self._hit = None
        return True

    def _answer(self) -> None:
        if self._script.answer:
            self._transport.write(self._script.answer)
        if self._script.closes:
            self._transport.close()

    def _object(self, what: str, raw: bytes) -> bool:
        self._canary.ledger.violations.append((f"{self._canary.name}: {what}", raw))
        self._is_dead = True
        self._transport.close()
        return False
