"""B8: can anything that a client controls add a line to a request or a response?"""

from collections.abc import Iterator
from functools import partial
from urllib.parse import quote

from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker

BREAKS = (
    *(
        b"\r\n",
        b"\r",
        b"\n",
        b"\n\r",
        b"\x00",
        b"\x0b",
        b"\x0c",
        b"\x1c",
        b"\x1d",
        b"\x1e",
        b"\x85",
        b"\xe2\x80\xa8",
        b"\xe2\x80\xa9",
        b"\xc2\x85",
    ),
    *(b"\xe5\x98\x8d\xe5\x98\x8a", b"\r\n ", b"\r\n\t", b"\x1b[31m", b'"', b"\\r\\n", b"\r\n\r\n", b"\x7f", b"<>", b"';"),
)
SPELLINGS = ("raw", "percent", "double percent", "lower percent", "%u", "html")
SITES = (
    ("public", None),
    ("group", None),
    ("group", "carol"),
    ("any", "alice"),
    ("redirect", None),
    ("cors", None),
    ("nowhere", None),
    ("rewrite", None),
)
PATHS = (
    b"/%b",
    b"/host/%b",
    b"/prefix/%b",
    b"/api/%b",
    b"/x?q=%b",
    b"/host/x?q=%b",
    b"/.gate/%b",
    b"/.gate/callback/?x=%b",
    b"/.gate/signout/?gate_redirect_uri=%b",
)
AUTHENTICATE_PATHS = (
    *(
        b"/.gate/sign_in?gate_redirect_uri=%b",
        b"/.gate/sign_in?gate_callback_uri=%b&gate_redirect_uri=https://x/",
        b"/oauth2/callback?state=%b&code=x",
    ),
    *(
        b"/oauth2/callback?error=%b",
        b"/oauth2/callback?error_description=%b&error=x",
        b"/.gate/signout/?gate_redirect_uri=%b",
        b"/.gate/%b",
        b"/.gate/?x=%b",
    ),
    *(b"/.gate/admin/login/?next=%b", b"/.gate/admin/%b", b"/%b", b"/.well-known/gate/%b", b"/.gate/sign_in?%b=x"),
)
HEADERS = (
    *(
        b"Origin",
        b"Referer",
        b"User-Agent",
        b"Cookie",
        b"X-Forwarded-For",
        b"X-Request-Id",
        b"Accept",
        b"Accept-Language",
        b"Authorization",
    ),
    *(
        b"Access-Control-Request-Method",
        b"Access-Control-Request-Headers",
        b"X-Forwarded-Host",
        b"Content-Type",
        b"If-None-Match",
        b"Range",
        b"X-CSRF-Token",
    ),
)


@attack("B8", "response and request splitting")
def splitting(target: Target) -> Iterator[Case]:
    for spelled in (each for found in BREAKS for each in _spelled(found + b"X-Injected: 1")):
        for site, user in SITES:
            yield from (Case(f"{path % spelled!r}"[:80], partial(_in_path, path % spelled, site, user)) for path in PATHS)
        yield from (
            Case(f"{path % spelled!r}"[:80], partial(_in_path, path % spelled, "authenticate", None)) for path in AUTHENTICATE_PATHS
        )
        for name in HEADERS:
            for site, user in (("public", None), ("group", None), ("cors", None), ("any", "alice"), ("authenticate", None)):
                yield Case(f"{name!r}: {spelled!r}"[:80], partial(_in_header, name, spelled, site, user))
        if not spelled.startswith(b"\r\n\r\n"):  # that ends the head: two requests, and both are the client's own
            yield Case(f"Host {spelled!r}"[:80], partial(_in_host, spelled))


def _spelled(text: bytes) -> Iterator[bytes]:
    percent = quote(text, safe="").encode()
    yield text
    yield percent
    yield percent.lower()
    yield percent.replace(b"%", b"%25")
    yield b"".join(b"%%u%04x" % byte if byte < 0x21 else bytes([byte]) for byte in text)
    yield b"".join(b"&#%d;" % byte if byte < 0x21 else bytes([byte]) for byte in text)


async def _in_path(path: bytes, site: str, user: str | None, target: Target) -> Outcome:
    marker = new_marker()
    return await _evaluate(target, target.request(b"GET", path, site, user=user, marker=marker), marker)


async def _in_header(name: bytes, value: bytes, site: str, user: str | None, target: Target) -> Outcome:
    marker = new_marker()
    method = b"OPTIONS" if site == "cors" else b"GET"
    more = b"Origin: https://a.example\r\n" if site == "cors" and name != b"Origin" else b""
    header = b"%b%b: %b\r\n" % (more, name, value)
    return await _evaluate(target, target.request(method, b"/x", site, user=user, marker=marker, headers=header), marker)


async def _in_host(value: bytes, target: Target) -> Outcome:
    marker = new_marker()
    return await _evaluate(
        target, target.request(b"GET", b"/x", "redirect", marker=marker, host=target.host("redirect").encode() + value), marker
    )


async def _evaluate(target: Target, data: bytes, marker: bytes) -> Outcome:
    answer = await target.send(data)
    hits = target.ledger.hits(marker)
    expect(len(answer.responses) == 1 and answer.is_closed, f"{len(answer.responses)} answers", data)
    (response,) = answer.responses
    expect(response.status < 500, f"answered {response.status}", data)
    expect(not response.values(b"x-injected"), "a header was injected into the answer", data)
    wanted_injection = b"\r\nx-injected: 1\r\n" in data.lower()  # the client's own header, then
    for hit in hits:
        expect(not hit.values(b"x-injected") or wanted_injection, "a header was injected into a request", data)
    for location in response.values(b"location"):
        expect(not any(byte <= 0x20 or byte >= 0x7F for byte in location), f"Location is {location!r}", data)
    return ACCEPTED if hits else REFUSED
