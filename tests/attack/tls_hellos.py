"""B34: is a ClientHello in pieces, or one that no client would send, judged like any other?"""

import asyncio
import random
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

from tests.attack.run import REFUSED, SEED, Case, Outcome, attack, expect
from tests.attack.target import Target
from tests.attack.tls_client import RECORD, VERSIONS, Bend, client_hello, context, in_records, message_of, whole
from tests.attack.tls_stage import ANN, BOB, GATES, full, stage

PAUSE = 0.004  # seconds, in which gate has mostly read what came before
PATIENCE = 0.5  # seconds
PRESENTED = {"nothing": (), "ann's": (ANN,), "bob's": (BOB,)}
NAME = full("ann")
# The part of an oversized message that is reported: its protocols (ALPN).
BYTES_OF_PROTOCOLS = (4_000, 16_000, 16_384, 20_000, 32_000, 33_000, 50_000, 60_000)
LONE_BYTES, MAX_PER_BYTE = 1_500, 0.0005  # seconds of gate's processor
ODD_VERSIONS = (b"\x00\x00", b"\x02\x00", b"\x03\x00", b"\x03\x02", b"\x03\x04", b"\x03\x05", b"\x7f\x1c", b"\xfe\xfd", b"\xff\xff")


def _segments(at: int, record: bytes) -> Iterable[bytes]:
    return [record[:at], record[at:]]


def _records(at: int, record: bytes) -> Iterable[bytes]:
    return [b"".join(in_records(record, [at]))]


def _records_apart(at: int, record: bytes) -> Iterable[bytes]:
    return in_records(record, [at])


def _within_a_header(at: int, record: bytes) -> Iterable[bytes]:
    """The second record's header comes in two parts."""
    first, second = in_records(record, [at])
    return [first + second[: at % RECORD], second[at % RECORD :]]


def _even_records(size: int, apart: bool, record: bytes) -> Iterable[bytes]:
    parts = in_records(record, range(size, len(message_of(record)), size))
    return parts if apart else [b"".join(parts)]


@attack("B34", "a ClientHello in pieces", together=16, sample=120, minutes=4)
def pieces(target: Target) -> Iterator[Case]:
    for version in VERSIONS:
        length = len(client_hello(NAME, version)) - RECORD
        cuts: dict[str, Bend] = {}
        for way in (_segments, _records, _records_apart, _within_a_header):
            cuts |= {f"{way.__name__[1:]} at {at}": partial(way, at) for at in range(1, length)}
        for size, apart in product((1, 2, 3, 7, 50, 100), (False, True)):
            cuts[f"records of {size}{', apart' if apart else ''}"] = partial(_even_records, size, apart)
        for gate, (label, bend), kind in product(GATES, cuts.items(), PRESENTED):
            yield _case(f"{gate}, TLS {version}, {label}, showing {kind}", gate, version, kind, bend)
        for gate, size, kind, way in product(GATES, BYTES_OF_PROTOCOLS, PRESENTED, (whole, partial(_even_records, 4_000, True))):
            yield _case(f"{gate}, TLS {version}, {size} bytes of protocols, showing {kind}", gate, version, kind, way, size)


def _case(label: str, gate: str, version: str, kind: str, bend: Bend, size: int = 0) -> Case:
    async def attempt(target: Target) -> Outcome:
        there = stage(gate)
        using = context(version, PRESENTED[kind], [*[b"x" * 99] * (size // 100), b"http/1.1"])
        received, was_seen = await there.ask("ann", server_name=NAME, bend=bend, pause=PAUSE, using=using)
        return there.evaluate(received, was_seen, is_proven=kind == "ann's", must_forward=kind == "ann's")

    return Case(label, attempt)


@attack("B34", "ClientHellos that no client sends", together=32, sample=80, minutes=2)
def odd(target: Target) -> Iterator[Case]:
    for gate, version in product(GATES, VERSIONS):
        record = client_hello(NAME, version)
        bends: dict[str, Callable[[bytes], bytes]] = dict(_fields())
        for at in range(len(record)):
            bends[f"cut at {at}"] = partial(_cut, at)
            for flip in (0x01, 0x80, 0xFF):
                bends[f"byte {at} ^ {flip:#x}"] = partial(_flipped, at, flip)
        for label, bend in bends.items():
            yield _odd_case(f"{gate}, TLS {version}, {label}", gate, version, bend)
        for only in ([b"acme-tls/1"], [b"acme-tls/1", b"acme-tls/1"], [b"h2"], [b"acme-tls/1", b"http/1.1"]):
            yield _odd_case(f"{gate}, TLS {version}, only {only}", gate, version, bytes, only)


def _odd_case(label: str, gate: str, version: str, bend: Callable[[bytes], bytes], protocols: Iterable[bytes] = ()) -> Case:
    async def attempt(target: Target) -> Outcome:
        there = stage(gate)
        received, was_seen = await there.ask(
            "ann", server_name=NAME, bend=lambda record: [bend(record)], patience=PATIENCE, using=context(version, (), list(protocols))
        )
        return there.evaluate(received, was_seen, is_proven=False)

    return Case(label, attempt)


def _cut(at: int, record: bytes) -> bytes:
    return record[:at]


def _flipped(at: int, flip: int, record: bytes) -> bytes:
    at %= len(record)  # its keys may be some bytes shorter another time
    return record[:at] + bytes([record[at] ^ flip]) + record[at + 1 :]


def _fields() -> Iterator[tuple[str, Callable[[bytes], bytes]]]:
    """Each field by itself is what it must not be; the lengths around it fit."""
    yield "nothing behind the protocols' length", lambda record: _joined(*_taken(record)[:4], b"\x00\x00")
    yield "no extensions at all", lambda record: _joined(*_taken(record)[:4], b"")
    for version in ODD_VERSIONS:
        yield f"record of version {version!r}", lambda record, version=version: record[:1] + version + record[3:]
        yield f"message of version {version!r}", lambda record, version=version: record[: RECORD + 4] + version + record[RECORD + 6 :]
        yield f"supports {version!r} only", partial(_with, 43, [b"\x02" + version])
    for size in (1, 31, 33, 64, 255):
        yield (
            f"session of {size} bytes",
            lambda record, size=size: _joined(_taken(record)[0], bytes([size]) + bytes(size), *_taken(record)[2:]),
        )
    for label, contents in _server_names():
        yield f"server names: {label}", partial(_with, 0, contents)
    for kind in (1, 5, 10, 13, 16, 35, 41, 42, 44, 45, 50, 51, 0x0A0A, 0xFF01, 0xFFFF):
        for content in (b"", b"\x00", b"\x00\x00", b"\x00\x01", b"\xff" * 9):
            yield f"extension {kind} is {content!r}", partial(_with, kind, [content])
        yield f"extension {kind} twice", partial(_with, kind, [b"\x00\x00", b"\x00\x00"])
    yield "4,000 extensions", lambda record: _with(0xFAFA, [b""] * 4_000, record)
    yield "empty records before it", lambda record: b"\x16\x03\x01\x00\x00" * 40 + record
    yield "an alert between its parts", lambda record: _between(record, b"\x15\x03\x01\x00\x02\x01\x5a")
    yield "a change of cipher between its parts", lambda record: _between(record, b"\x14\x03\x01\x00\x01\x01")
    yield "data between its parts", lambda record: _between(record, b"\x17\x03\x01\x00\x05GET /")
    yield "itself twice", lambda record: record * 2
    yield "itself twice in a record", lambda record: b"".join(in_records(_record(record[RECORD:] * 2), []))
    yield "of SSL 2", lambda record: b"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10" + bytes(37)
    yield "16 MiB long, it says", lambda record: record[:6] + b"\xff\xff\xff" + record[9:]
    yield (
        "a part of 16 MiB, in small records",
        lambda record: b"".join(in_records(_record(b"\x01\xff\xff\xff" + bytes(60_000)), range(1, 60_000))),
    )
    junk = random.Random(SEED)
    for number in range(40):
        yield f"junk {number}", partial(_junk, junk.randbytes(junk.randrange(5, 2_000)))


def _junk(junk: bytes, record: bytes) -> bytes:
    return record[:6] + junk


def _server_names() -> Iterator[tuple[str, list[bytes]]]:
    ann, other = _name(NAME), _name(full("open"))
    yield "none in the list", [b"\x00\x00"]
    yield "nothing", [b""]
    yield "two extensions", [_list(ann), _list(other)]
    yield "two extensions, the other first", [_list(other), _list(ann)]
    yield "two in one list", [_list(ann + other)]
    yield "two in one list, the other first", [_list(other + ann)]
    yield "of another type", [_list(b"\x01" + ann[1:])]
    yield "of another type before", [_list(b"\x01" + other[1:] + ann)]
    yield "empty", [_list(_name(b""))]
    yield "very long", [_list(_name(b"a" * 60_000))]
    yield "longer than the list", [_list(b"\x00\x00\xff" + NAME)]
    yield "shorter than the list", [_list(ann + b"x")]
    for name in (NAME + b"\x00", b"\x00" + NAME, b"open.localhost\x00.ann.localhost", NAME + b"\r\n", NAME + b"\xff", b"\xff\xfe"):
        yield repr(name), [_list(_name(name))]


def _name(name: bytes) -> bytes:
    return b"\x00" + struct.pack(">H", len(name)) + name


def _list(names: bytes) -> bytes:
    return struct.pack(">H", len(names)) + names


def _between(record: bytes, other: bytes) -> bytes:
    first, second = in_records(record, [60])
    return first + other + second


def _taken(record: bytes) -> list[bytes]:
    """Version and random, session, suites, compression, extensions; each with its length (RFC 8446 4.1.2)."""
    rest, found = record[RECORD + 4 :], []
    for fixed, width in ((34, 0), (0, 1), (0, 2), (0, 1), (0, 2)):
        size = fixed + width + int.from_bytes(rest[:width], "big")
        found.append(rest[:size])
        rest = rest[size:]
    return found


def _record(message: bytes) -> bytes:
    """One that is as long as a number of two bytes can say."""
    return b"\x16\x03\x01" + struct.pack(">H", len(message)) + message


def _joined(*fields: bytes) -> bytes:
    body = b"".join(fields)
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"".join(_record(message[at : at + 16_000]) for at in range(0, len(message), 16_000))


def _with(kind: int, contents: list[bytes], record: bytes) -> bytes:
    """This extension has these contents, once for each, in place of what it had."""
    *before, extensions = _taken(record)
    made, rest = b"", extensions[2:]
    while rest:
        size = 4 + int.from_bytes(rest[2:4], "big")
        made += b"" if int.from_bytes(rest[:2], "big") == kind else rest[:size]
        rest = rest[size:]
    own = b"".join(struct.pack(">HH", kind, len(content)) + content for content in contents)
    return _joined(*before, struct.pack(">H", (len(own) + len(made)) & 0xFFFF) + own + made)


@attack("B34", "a ClientHello that costs much", together=1, sample=2)
def costs(target: Target) -> Iterator[Case]:
    for gate in GATES:
        yield Case(f"{gate}: byte by byte", partial(_byte_by_byte, gate))


async def _byte_by_byte(gate: str, target: Target) -> Outcome:
    """One-byte records of a hello that is nearly as long as may be; what each late byte costs is gate's own processor time."""
    there = stage(gate)
    message = b"\x01\x00\x3f\xf0" + bytes(5_000)
    sent = b"".join(in_records(_record(message), range(1, len(message))))
    _, writer = await asyncio.open_connection("127.0.0.1", there.port)
    try:
        writer.write(sent)
        await there.ask("ann", server_name=NAME)
        before = _processor_seconds(there.pid)
        for at in range(LONE_BYTES):
            writer.write(b"\x16\x03\x01\x00\x01\x00"[at % 6 : at % 6 + 1])
            await asyncio.sleep(0.0005)
        await there.ask("ann", server_name=NAME)
        spent = _processor_seconds(there.pid) - before
    finally:
        writer.close()
    expect(spent < LONE_BYTES * MAX_PER_BYTE, f"{LONE_BYTES} bytes have cost {spent:.2f} s", sent)
    there.look()
    return REFUSED


def _processor_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[11:13]
    return (int(user) + int(system)) / 100
