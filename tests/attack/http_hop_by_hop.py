"""B4: can a client's Connection header take away what gate adds, or move the end of a body?"""

from collections.abc import Iterator
from functools import partial

from tests.attack.run import ACCEPTED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker

HOP_HEADERS = (b"Connection", b"Proxy-Connection", b"Keep-Alive", b"TE", b"Trailer", b"connection", b"CONNECTION", b"Connection-Info")
PROTECTED = (
    *(
        b"x-gate-jwt-assertion",
        b"x-gate-claim-email",
        b"x-gate-claim-groups",
        b"x-forwarded-for",
        b"x-forwarded-proto",
        b"x-forwarded-host",
    ),
    *(
        b"x-forwarded-port",
        b"x-real-ip",
        b"x-request-id",
        b"forwarded",
        b"host",
        b"content-length",
        b"transfer-encoding",
        b"cookie",
        b"authorization",
    ),
)


@attack("B4", "hop-by-hop abuse")
def hop_by_hop(target: Target) -> Iterator[Case]:
    for name in PROTECTED:
        for hop in HOP_HEADERS:
            for value in _hop_values(name):
                for site, user in (("any", "alice"), ("group", "alice")):
                    yield Case(f"{hop!r}: {value!r} at {site}", partial(_hop, hop, value, site, user))
    for value in _hop_values(b"x-set-by-route"):
        yield Case(f"Connection: {value!r} at setter", partial(_hop, b"Connection", value, "setter", None))


def _hop_values(name: bytes) -> Iterator[bytes]:
    for each in (name, name.upper(), name.title(), name.replace(b"-", b"_"), b'"%b"' % name):
        yield each
        yield b"close, " + each
        yield b"keep-alive ," + each + b", , "
    yield b", ".join(PROTECTED)


async def _hop(hop: bytes, value: bytes, site: str, user: str | None, target: Target) -> Outcome:
    marker, body = new_marker(), b"0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n"
    credentials = b"Authorization: Basic YTpi\r\nX-Mine: 1\r\n"
    cookie = b"Cookie: mine=1%b\r\n" % (b"; " + target.cookie(user, site) if user else b"")
    headers = b"%b: %b\r\n" % (hop, value) + credentials + cookie
    data = target.request(b"POST", b"/x", site, marker=marker, headers=headers, body=body, close=False)
    follow_up = new_marker()
    second = target.request(b"GET", b"/second", site, marker=follow_up, user=user)
    answer = await target.send(data + second, methods=(b"POST", b"GET"))
    hits = target.ledger.hits(marker)
    expect(len(hits) == 1 and answer.statuses[0] == 200, f"answered {answer.raw[:200]!r}", data)
    (hit,) = hits
    expect(bytes(hit.body) == body, f"the body became {bytes(hit.body)!r}", data)
    expect(hit.values(b"host") == [target.host(site).encode()], f"Host became {hit.values(b'host')!r}", data)
    for name in (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-real-ip", b"x-request-id", b"forwarded"):
        expect(len(hit.values(name)) == 1, f"{name!r} is {hit.values(name)!r}", data)
    expect(
        hit.values(b"cookie") == [b"mine=1"] and hit.values(b"authorization") == [b"Basic YTpi"],
        "the client's own credentials went astray",
        data,
    )
    expect(not user or hit.values(b"x-gate-claim-email") == [b"alice@example.com"], "the identity did not arrive", data)
    expect(not user or len(hit.values(b"x-gate-jwt-assertion")) == 1, "the assertion did not arrive", data)
    expect(user or hit.values(b"x-set-by-route") == [b"route"], "the route's own header did not arrive", data)
    closes = b"close" in value.lower() and hop.lower() == b"connection"
    expect(len(answer.statuses) == (1 if closes else 2), f"{len(answer.statuses)} answers", data + second)
    return ACCEPTED
