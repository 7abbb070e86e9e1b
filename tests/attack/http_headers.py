"""B3: can a client make an upstream see a header that only gate may write?"""

import base64
import json
import re
from collections.abc import Iterator
from functools import partial

from tests.attack.http_canary import Hit, fold
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker

NAMES = (
    *(b"X-Gate-Jwt-Assertion", b"X-Gate-Claim-Email", b"X-Gate-Claim-Groups", b"X-Gate-Claim-Nickname", b"X-Gate-Claim-Never-Configured"),
    *(
        b"X-Gate-Set-Cookie",
        b"X-Gate-Claim-Aud",
        b"X-Gate-Session-Id",
        b"X-Gate-Route-Id",
        b"X-Gate-Claim-Groups-More",
        b"X-Envoy-Original-Path",
        b"X-Envoy-External-Address",
        b"X-Envoy-Internal",
    ),
    *(b"Daphne-Root-Path", b"X-Forwarded-For", b"X-Forwarded-Host", b"X-Forwarded-Proto", b"X-Forwarded-Port", b"X-Forwarded-Prefix"),
    *(b"X-Forwarded-Uri", b"X-Forwarded-User", b"X-Forwarded-Email", b"X-Forwarded-Method", b"Forwarded", b"X-Real-Ip", b"X-Original-Url"),
    *(
        b"X-Original-Uri",
        b"X-Original-Method",
        b"Impersonate-User",
        b"Impersonate-Group",
        b"Impersonate-Extra-Scopes",
        b"Proxy",
        b"X-Request-Id",
    ),
    *(b"X-HTTP-Method-Override", b"X-HTTP-Method", b"X-Method-Override", b"X-Rewrite-Url", b"X-Override-Url", b"X-Original-Host"),
    *(b"X-Script-Name", b"Path-Info"),
)
# Headers that only gate may set: these must arrive with gate's value, exactly once.
GATE_HEADERS = {b"x-gate-jwt-assertion": ("alice",), b"x-gate-claim-email": ("alice",), b"x-gate-claim-groups": ("alice",)}
SPLITTERS = (b"\x0b", b"\x0c", b"\x1c", b"\x1d", b"\x1e", b"\x85", b"\r", b"\n", b"\x00", b"\r\n ", b"\n ", b"\xe2\x80\xa8", b"\xc2\x85")
# (site, person, method, more headers)
PREFLIGHT = b"Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
UPGRADE = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
MODES = (
    *(
        ("public", None, b"GET", b""),
        ("cors", None, b"OPTIONS", PREFLIGHT),
        ("group", "carol", b"GET", b""),
        ("group", "alice", b"POST", b""),
    ),
    *(("any", "carol", b"GET", b""), ("bare", "alice", b"GET", b""), ("mixed", "alice", b"GET", b""), ("redirect", None, b"GET", b"")),
    *(("setter", None, b"GET", b""), ("public", None, b"GET", UPGRADE), ("any", "alice", b"GET", UPGRADE), ("rewrite", None, b"GET", b"")),
)


def aliases(name: bytes, value: bytes) -> Iterator[tuple[str, bytes]]:
    """(what is odd about it, raw header lines)."""
    plain = b"%b: %b\r\n" % (name, value)
    yield "as it is", plain
    yield "lower", plain.replace(name, name.lower())
    yield "upper", plain.replace(name, name.upper())
    for byte in b"_.!#$%&'*+^`|~ \t/:@\\\x00\x0b\x7f\xad":
        yield f"dashes as {byte:#x}", plain.replace(name, name.replace(b"-", bytes([byte])))
        yield f"first dash as {byte:#x}", plain.replace(name, name.replace(b"-", bytes([byte]), 1))
        yield f"{byte:#x} before the colon", b"%b%c: %b\r\n" % (name, byte, value)
        yield f"{byte:#x} before the name", b"%c%b: %b\r\n" % (byte, name, value)
    yield "no dashes", plain.replace(name, name.replace(b"-", b""))
    yield "double dashes", plain.replace(name, name.replace(b"-", b"--"))
    yield "dash at the end", plain.replace(name, name + b"-")
    yield "folded", b"X-Ok: a\r\n %b: %b\r\n" % (name, value)
    yield "folded value", b"%b:\r\n %b\r\n" % (name, value)
    yield "twice", plain * 2
    yield "empty first", b"%b:\r\n%b" % (name, plain)
    yield "empty last", b"%b%b:\r\n" % (plain, name)
    yield "in a list", b"%b: a, %b, %b\r\n" % (name, value, value)
    yield "no colon", b"%b %b\r\n" % (name, value)
    yield "60 KiB", b"%b: %b\r\n" % (name, value * 3600)
    yield "bare LF", b"X-Ok: a\n%b" % plain
    yield "named by Connection", b"Connection: %b\r\n%b" % (name, plain)
    yield "Connection names another", b"Connection: X-Ok\r\nX-Ok: %b\r\n%b" % (value, plain.replace(name, name.replace(b"-", b"_")))
    for splitter in SPLITTERS:
        yield f"behind {splitter!r}", b"X-Ok: a%b%b" % (splitter, plain)


def trailers(name: bytes, value: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    """(what is odd, headers, body)."""
    for odd, lines in aliases(name, value):
        yield f"trailer, {odd}", b"Transfer-Encoding: chunked\r\n", b"2\r\nhi\r\n0\r\n%b\r\n" % lines
    yield (
        "announced trailer",
        b"Transfer-Encoding: chunked\r\nTrailer: %b\r\nTE: trailers\r\n" % name,
        b"0\r\n%b: %b\r\n\r\n" % (name, value),
    )


@attack("B3", "spoofed headers: names, aliases, modes")
def spoofed(target: Target) -> Iterator[Case]:
    for name in NAMES:
        for mode in MODES:
            count = sum(1 for _ in aliases(name, b""))
            for number in range(count):
                yield Case(f"{name!r}, alias {number}, {mode[0]} as {mode[1]}", partial(_spoof, name, number, mode))
        for number in range(sum(1 for _ in trailers(name, b""))):
            for mode in MODES[:6]:
                yield Case(f"{name!r}, trailer {number}, {mode[0]} as {mode[1]}", partial(_spoof_trailer, name, number, mode))


async def _spoof(name: bytes, number: int, mode: tuple[str, str | None, bytes, bytes], target: Target) -> Outcome:
    marker, value = new_marker(), new_marker()
    odd, lines = list(aliases(name, value))[number]
    site, user, method, more = mode
    path = b"/api/x" if site == "rewrite" else b"/x"
    data = target.request(method, path, site, user=user, marker=marker, headers=more + lines)
    return await _check_spoof(target, name, value, marker, mode, data, odd)


async def _spoof_trailer(name: bytes, number: int, mode: tuple[str, str | None, bytes, bytes], target: Target) -> Outcome:
    marker, value = new_marker(), new_marker()
    odd, framing, body = list(trailers(name, value))[number]
    site, user, _, more = mode
    method = b"OPTIONS" if site == "cors" else b"POST"
    data = target.request(method, b"/x", site, user=user, marker=marker, headers=more + framing) + body
    return await _check_spoof(target, name, value, marker, mode, data, odd)


async def _check_spoof(target: Target, name: bytes, value: bytes, marker: bytes, mode: tuple, data: bytes, odd: str) -> Outcome:
    answer = await target.send(data, methods=(data.split(b" ")[0],))
    expect(answer.responses, f"{odd}: no answer", data)
    hits = target.ledger.hits(marker) or target.ledger.hits(value)
    expect(len(hits) <= 1, f"{odd}: {len(hits)} requests reached upstreams", data)
    site, user, _, _ = mode
    expect(not (user == "carol" and site == "group" and hits), f"{odd}: refused, and yet an upstream saw it", data)
    for hit in hits:
        _check_headers(hit, name, value, user, odd, data)
    expect(value not in b"".join(header for response in answer.responses for _, header in response.headers), f"{odd}: echoed", data)
    return ACCEPTED if hits else REFUSED


def _check_headers(hit: Hit, name: bytes, value: bytes, user: str | None, odd: str, data: bytes) -> None:
    for found, content in hit.headers:
        squeezed = _squeezed(found)
        expect(not (squeezed == _squeezed(name) and value in content), f"{odd}: an upstream saw {found!r}: {content!r}", data)
        expect(
            not fold(found).strip(b"-").startswith(b"x-gate-") or value not in content,
            f"{odd}: an upstream saw {found!r}: {content!r}",
            data,
        )
    expect(name.lower() not in bytes(hit.body).lower() or hit.method == b"POST", f"{odd}: in the body", data)
    has_identity = (user is not None and hit.canary in ("group", "any", "cors", "secret")) or (hit.canary == "open" and user is not None)
    emails = hit.values(b"x-gate-claim-email")
    expect(emails == ([b"%b@example.com" % user.encode()] if has_identity and user else []), f"{odd}: identity {emails!r}", data)
    expect(not hit.values(b"x-gate-claim-nickname"), f"{odd}: a claim that no user has", data)
    assertions = hit.values(b"x-gate-jwt-assertion")
    expect(len(assertions) == len(emails) or (len(assertions) == 1 and not emails), f"{odd}: {len(assertions)} assertions", data)
    received = [json.loads(base64.urlsafe_b64decode(each.split(b".")[1] + b"==")).get("email", "").encode() for each in assertions]
    expect(received == emails or received == [b""], f"{odd}: the assertion is about {received!r}", data)


def _squeezed(name: bytes) -> bytes:
    return re.sub(rb"[^0-9a-z]", b"", name.lower())
