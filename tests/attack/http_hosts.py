"""B2: is the route a function of the lower-cased host without trailing dot and default port, and of nothing else?"""

import re
from collections.abc import Iterator
from functools import partial

from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import ELSEWHERE_PORT, Target, new_marker

SITES = ("any", "group", "public", "default")
LOOKALIKES = ("\u3002", "\uff0e", "\uff61", "\u2024")
INSIDE = (*range(0x21), *b"\"#%,/;<>?@[\\]^`{|}~_!$&'()*+=", *range(0x7F, 0x100))
REFUSALS = (302, 400, 404, 421)
OTHER_SOURCES = (
    *(b"X-Forwarded-Host", b"X-Host", b"X-Original-Host", b"X-Forwarded-Server", b"X-HTTP-Host-Override", b"X-Rewrite-Url"),
    *(b"X-Original-Url", b"X-Forwarded-Port", b"X-Forwarded-Proto", b":authority", b"Forwarded", b"X_Host", b"Authority"),
)


@attack("B2", "host confusion")
def hosts(target: Target) -> Iterator[Case]:
    for site in SITES:
        for host in _spellings(target.host(site)):
            for user in (None, "alice" if site != "public" else None, "carol" if site != "public" else None):
                yield Case(f"Host {host[:60]!r} as {user}", partial(_one_host, site, host, user))
    for name in OTHER_SOURCES:
        for value in (
            target.host("public").encode(),
            b"https://%b/" % target.host("public").encode(),
            b"host=%b" % target.host("public").encode(),
        ):
            yield Case(f"{name!r}: {value!r}", partial(_other_source, name, value))
    yield from _two_hosts(target)
    for line in (
        b"GET / HTTP/1.0",
        b"GET / HTTP/0.9",
        b"GET /",
        b"GET / HTTP/2.0",
        b"GET / HTTP/1.2",
        b"GET / HTTP/1.10",
        b"GET / http/1.1",
        b"GET / HTTP/11",
    ):
        yield Case(f"{line!r}", partial(_version, line))


def _spellings(host_port: str) -> Iterator[bytes]:
    host, _, port = host_port.partition(":")
    suffix = f":{port}" if port else ""
    for name in (
        host,
        host.upper(),
        host.title(),
        host + ".",
        host + "..",
        "." + host,
        host.replace(".", ".."),
        "x." + host,
        host + ".evil.example",
    ):
        yield (name + suffix).encode()
    for odd in (
        "",
        ":",
        ":80",
        ":443",
        ":0443",
        ":443x",
        f":0{port}",
        f":{port}x",
        f":{port} ",
        f":{ELSEWHERE_PORT}",
        ":65536",
        f":+{port}",
        f":{port}:{port}",
        ":-1",
        ":0",
    ):
        yield (host + odd).encode()
    for before in ("u@", "u:p@", "https://", "//", "[", "*.", " ", "evil.example,", "evil.example "):
        yield (before + host + suffix).encode()
    for after in (
        "@evil.example",
        "/",
        "/x",
        "?x",
        "#x",
        ",evil.example",
        ", evil.example",
        "\\",
        "%00",
        "%2e",
        ";x",
        " evil.example",
        "\t",
    ):
        yield (host + suffix + after).encode()
        yield (host + after + suffix).encode()
    for dot in LOOKALIKES:
        yield (host.replace(".", dot) + suffix).encode()
    for name in (
        "",
        "localhost",
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "xn--any-1na.localhost",
        "\u0430ny.localhost",
        "a" * 300,
        "a" * 9000,
        "0x7f.1",
    ):
        yield (name + suffix).encode()
    for byte in INSIDE:
        yield (host[:2].encode() + bytes([byte]) + host[2:].encode()) + suffix.encode()
        yield bytes([byte]) + (host + suffix).encode()
        yield host.encode() + bytes([byte]) + suffix.encode()


def _is_site(host: bytes, site_host: str) -> bool:
    """The rule of the page of decisions, on what is left after HTTP's own blanks."""
    host = host.strip(b" \t").lower()
    match = re.fullmatch(rb"([a-z0-9.-]+?)\.?(?::([1-9][0-9]*))?", host)
    if match is None:
        return False
    wanted, _, port = site_host.encode().partition(b":")
    default = (None, b"80", b"443")
    return match[1] == wanted and (match[2] == port if port else match[2] in default)


async def _one_host(site: str, host: bytes, user: str | None, target: Target) -> Outcome:
    marker = new_marker()
    data = target.request(b"GET", b"/h", site, user=user, marker=marker, host=host)
    answer = await target.send(data)
    hits = target.ledger.hits(marker)
    expect(answer.is_closed and len(answer.statuses) == 1, f"answered {answer.raw[:200]!r}", data)
    if not _is_site(host, target.host(site)):
        expect(not hits, f"reached {hits and hits[0].canary}", data)
        expect(answer.statuses[0] in (400, 404, 421, 431) or _elsewhere(answer.raw), f"answered {answer.raw[:200]!r}", data)
        expect(
            (b"127.0.0.1" not in answer.raw and b"authenticate." not in answer.raw) or _elsewhere(answer.raw),
            "an unknown host learns about routes",
            data,
        )
        return REFUSED
    if site == "public" or user == "alice" or (user == "carol" and site != "group"):
        expect(len(hits) == 1 and hits[0].canary == site, f"did not reach its site: {answer.raw[-200:]!r}", data)
        return ACCEPTED
    expect(not hits and answer.statuses[0] in (302, 403), f"answered {answer.raw[:200]!r}", data)
    return REFUSED


def _elsewhere(raw: bytes) -> bool:
    """any.localhost at the other port is a separate site without a session: a sign-in redirect is correct."""
    return raw.startswith(b"HTTP/1.1 302") and b"any.localhost%%3A%d" % ELSEWHERE_PORT in raw


async def _other_source(name: bytes, value: bytes, target: Target) -> Outcome:
    marker = new_marker()
    data = target.request(b"GET", b"/h", "group", marker=marker, headers=b"%b: %b\r\n" % (name, value))
    answer = await target.send(data)
    expect(not target.ledger.hits(marker) and answer.statuses[0] in (302, 400), f"answered {answer.raw[:200]!r}", data)
    return REFUSED


def _two_hosts(target: Target) -> Iterator[Case]:
    group, public = target.host("group").encode(), target.host("public").encode()
    heads = [b"Host: %b\r\nHost: %b\r\n" % pair for pair in ((group, public), (public, group), (group, group), (public, b""))]
    heads += [
        b"Host: %b,%b\r\n" % (public, group),
        b"Host: %b\r\n %b\r\n" % (public, group),
        b"Host : %b\r\n" % public,
        b"Host:\r\n",
        b"",
        b"X: y\r\n",
    ]
    heads += [b" Host: %b\r\nHost: %b\r\n" % (public, group), b"Host: %b\r\nHost\t: %b\r\n" % (public, group), b"Host\x00: %b\r\n" % public]
    for head in heads:
        for line in (b"/", b"http://%b/" % public, b"http://%b/" % group, b"https://%b/" % public):
            yield Case(f"{head!r}", partial(_malformed, line, head))
    for line in (
        b"http://%b/" % group,
        b"http://evil.example/",
        b"https://%b:1/" % public,
        b"//%b/" % group,
        b"http:///",
        b"http://u@%b/" % public,
    ):
        yield Case(f"target {line!r}", partial(_malformed, line, b"Host: %b\r\n" % public))


async def _malformed(target_line: bytes, head: bytes, target: Target) -> Outcome:
    marker = new_marker()
    data = b"GET %b HTTP/1.1\r\n%bX-Marker: %b\r\nConnection: close\r\n\r\n" % (target_line, head, marker)
    answer = await target.send(data)
    hits = target.ledger.hits(marker)
    if target_line.startswith(b"//"):  # a path with two slashes at the host that Host names
        expect(all(hit.canary == "public" and hit.target == target_line for hit in hits), f"{hits}", data)
        return ACCEPTED if hits else REFUSED
    expect(not hits, "an upstream saw it", data)
    expect(answer.is_closed and answer.statuses == [400], f"answered {answer.raw[:200]!r}", data)
    return REFUSED


async def _version(line: bytes, target: Target) -> Outcome:
    marker = new_marker()
    data = b"%b\r\nHost: %b\r\nX-Marker: %b\r\n\r\n" % (line, target.host("public").encode(), marker)
    answer = await target.send(data)
    expect(not target.ledger.hits(marker), "an upstream saw it", data)
    expect(answer.is_closed and answer.statuses[0] in (400, 426, 505), f"answered {answer.raw[:200]!r}", data)
    return REFUSED
