"""B43: does a tunnel lead only where a route for TCP says, for users that it allows, and are early bytes never parsed as a request?"""

import re
from collections.abc import Iterator
from functools import partial

from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import TUNNEL_PORT, Target, new_marker

STATUS = re.compile(rb"HTTP/1\.1 [0-9]{3} ")
OPENED = b"HTTP/1.1 200 OK\r\n"
PEOPLE = (None, "carol", "alice")
OTHERS = b"X-Forwarded-Host: %b\r\nForwarded: host=%b\r\nX-Original-URL: https://%b/\r\nX-Host: %b\r\n"


def authorities(target: Target) -> dict[bytes, str]:
    """Target -> the site whose route it is, empty for none."""
    right = b"group.localhost:%d" % TUNNEL_PORT
    canary, port = target.canaries["group"].port, target.port
    places = [b"127.0.0.1:%d" % canary, b"localhost:%d" % canary, b"[::1]:%d" % canary, b"0:%d" % canary, b"2130706433:%d" % canary]
    places += [b"127.0.0.1:22", b"169.254.169.254:80", b"[::ffff:127.0.0.1]:%d" % canary, b"authenticate.localhost:%d" % port]
    places += [
        b"group.localhost:%d" % other for other in (0, 1, 22, 80, 443, canary, port, 5433, 54320, 65535, 65536, 99999, TUNNEL_PORT + 65536)
    ]
    places += [
        b"%b.localhost:%d" % (site, TUNNEL_PORT) for site in (b"any", b"secret", b"nowhere", b"agroup", b"x.group", b"group.localhost")
    ]
    spelled = [b"group.localhost", b"group.localhost:", b"group.localhost:05432", b"group.localhost:+5432", b"group.localhost:5432:5432"]
    spelled += [b"group.localhost:5432 ", b"ann@" + right, b"ann:pw@" + right, b"https://" + right, b"http://" + right + b"/", right + b"/"]
    spelled += [
        right + b"?x",
        right + b"#x",
        b"//" + right,
        b"/" + right,
        b"*",
        b"*:5432",
        b"/",
        b"",
        b"group%2elocalhost:5432",
        b"group.localhost%3a5432",
    ]
    spelled += [
        b"group.localhost:5432,public.localhost:5432",
        b"group.localhost\\:5432",
        b"group..localhost:5432",
        b".group.localhost:5432",
    ]
    spelled += [
        b"group.localhost:0x1538",
        b"group.localhost:\xd9\xa5432",
        b"group\xe3\x80\x82localhost:5432",
        b":5432",
        b"[group.localhost]:5432",
    ]
    valid = {
        right: "group",
        right.upper(): "group",
        b"group.localhost.:%d" % TUNNEL_PORT: "group",
        b"public.localhost:%d" % TUNNEL_PORT: "public",
    }
    return dict.fromkeys(places + spelled, "") | valid


@attack("B43", "tunnels without a route or without access")
def tunnels(target: Target) -> Iterator[Case]:
    right = b"group.localhost:%d" % TUNNEL_PORT
    for authority, site in authorities(target).items():
        for user in PEOPLE:
            for host in dict.fromkeys((authority, right, b"public.localhost:%d" % TUNNEL_PORT)):
                for method in (b"CONNECT", b"connect"):
                    # Two readings of one place are none.
                    leads = site if host.lower() == authority.lower() and method == b"CONNECT" else ""
                    yield Case(f"{method!r} {authority!r} at {host!r} as {user}", partial(_sent, method, authority, host, user, leads))
    for user in PEOPLE:
        for value in (b"127.0.0.1:22", b"public.localhost:5432", b"any.localhost"):
            yield Case(f"another place in headers: {value!r} as {user}", partial(_received, OTHERS % ((value,) * 4), user))
        for line in (b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b"X-HTTP-Method-Override: GET\r\n", b"Expect: 100-continue\r\n"):
            yield Case(f"{line!r} as {user}", partial(_received, line, user))
        for version in (b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.2", b"http/1.1"):
            yield Case(f"{version!r} as {user}", partial(_sent, b"CONNECT", right, right, user, "", version))


@attack("B43", "bytes after a CONNECT", sample=60)
def behind(target: Target) -> Iterator[Case]:
    framings = (
        b"",
        b"Content-Length: 0\r\n",
        b"Content-Length: 20\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\nContent-Length: 5\r\n",
    )
    framings += (b"Connection: keep-alive\r\n", b"Proxy-Connection: keep-alive\r\n", b"Connection: close\r\n")
    for framing in framings:
        for user in PEOPLE:
            for pieces in (1, 2, 3):
                yield Case(f"{framing!r} as {user} in {pieces} pieces", partial(_behind, framing, user, pieces))


def _inner(marker: bytes) -> bytes:
    """Bytes that the canary would parse as a request."""
    return b"GET /%b HTTP/1.1\r\nHost: public.localhost\r\nX-Marker: %b\r\nConnection: close\r\n\r\n" % (marker, marker)


def _may_enter(site: str, user: str | None) -> bool:
    return site == "public" or (site == "group" and user == "alice")


def _connect(target: Target, method: bytes, authority: bytes, host: bytes, user: str | None, headers: bytes = b"") -> bytes:
    return target.request(method, authority, "group", user=user, headers=headers, host=host, close=False)


async def _sent(method: bytes, authority: bytes, host: bytes, user: str | None, site: str, *more: object) -> Outcome:
    version, target = (more[0], more[1]) if len(more) == 2 else (b"HTTP/1.1", more[0])
    marker = new_marker()
    data = _connect(target, method, authority, host, user).replace(b"HTTP/1.1", version, 1)
    return await _evaluated(target, data, marker, site, user)


async def _received(headers: bytes, user: str | None, target: Target) -> Outcome:
    right, marker = b"group.localhost:%d" % TUNNEL_PORT, new_marker()
    return await _evaluated(target, _connect(target, b"CONNECT", right, right, user, headers), marker, "group", user)


async def _evaluated(target: Target, data: bytes, marker: bytes, site: str, user: str | None) -> Outcome:
    answer = await target.send(data + _inner(marker))
    hits = target.ledger.hits(marker)
    if _may_enter(site, user):
        expect(answer.raw.startswith(OPENED), f"answered {answer.raw[:200]!r}", data)
        expect([hit.canary for hit in hits] == [site], f"{[hit.canary for hit in hits]} were reached", data)
        return ACCEPTED
    expect(not hits, "an upstream was reached", data)
    expect(answer.is_closed and len(STATUS.findall(answer.raw)) == 1, f"answered {answer.raw[:300]!r}", data)
    expect(400 <= int(answer.raw[9:12]) < 500 or answer.raw[9:12] == b"505", f"answered {answer.raw[:100]!r}", data)
    return REFUSED


async def _behind(framing: bytes, user: str | None, pieces: int, target: Target) -> Outcome:
    """Early bytes are part of the tunnel or dropped: gate never parses them as a request."""
    right, marker = b"group.localhost:%d" % TUNNEL_PORT, new_marker()
    data = _connect(target, b"CONNECT", right, right, user, framing)
    own = target.request(b"GET", b"/" + marker, "public", marker=marker, close=True)
    cut = len(own) // pieces
    writes = [data + own[:cut], *(own[at : at + cut] for at in range(cut, len(own), cut))]
    answer = await target.send(*writes, pause=0.01)
    hits = target.ledger.hits(marker)
    if user == "alice" and b"Length" not in framing and b"Encoding" not in framing:
        expect(answer.raw.startswith(OPENED) and [hit.canary for hit in hits] == ["group"], f"answered {answer.raw[:200]!r}", data)
        expect(not hits[0].values(b"x-forwarded-for"), "gate read what was in the tunnel", data)
        return ACCEPTED
    expect(not hits, "what was sent ahead was taken for a request", data)
    expect(answer.is_closed and len(STATUS.findall(answer.raw)) == 1, f"answered {answer.raw[:300]!r}", data)
    return REFUSED
