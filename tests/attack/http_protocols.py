"""B6: does gate speak HTTP/1.1 and nothing else, whatever a client proposes?"""

import asyncio
import ssl
from collections.abc import Iterator
from functools import partial

from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect, not_built
from tests.attack.target import Target, new_marker

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
OFFERS = (
    [],
    ["http/1.1"],
    ["h2", "http/1.1"],
    ["h2"],
    ["h3"],
    ["h2c"],
    ["http/1.0"],
    ["spdy/3.1", "http/1.1"],
    ["acme-tls/1"],
    ["HTTP/1.1"],
)
UPGRADES = (
    *(b"h2c", b"h2", b"H2C", b"h2c, websocket", b"websocket, h2c", b"TLS/1.0", b"HTTP/2.0", b"HTTP/1.1", b"connect-udp", b"foo"),
    *(b"h2c\r\nUpgrade: websocket", b"", b"h2c,", b"\th2c"),
)


@attack("B6", "other protocols: h2, h2c, upgrades")
def protocols(target: Target) -> Iterator[Case]:
    for data in (
        PREFACE,
        PREFACE + SETTINGS,
        b"PRI * HTTP/2.0\r\nHost: x\r\n\r\nSM\r\n\r\n",
        b"PRI / HTTP/1.1\r\n\r\n",
        SETTINGS,
        PREFACE[:-6] + SETTINGS * 100,
    ):
        yield Case(f"preface {data[:30]!r}", partial(_preface, data))
    for data in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
        b"\x80\x2e\x01\x00\x02",
        b"SSH-2.0-x\r\n",
        b"EHLO x\r\n",
        b"\x00" * 64,
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET / HTTP/1.1\r\n\r\n",
    ):
        yield Case(f"other bytes {data[:20]!r}", partial(_preface, data))
    for value in UPGRADES:
        for site, user in (("public", None), ("any", "alice"), ("group", None), ("group", "carol")):
            for settings in (b"", b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"):
                yield Case(f"Upgrade: {value!r} at {site}", partial(_upgrade, value, settings, site, user))
    if target.tls is None:
        yield not_built("ALPN is tried with --tls only")
    else:
        yield from (Case(f"ALPN {offer}", partial(_alpn, offer)) for offer in OFFERS)


async def _preface(data: bytes, target: Target) -> Outcome:
    answer = await target.send(data, wait=12)
    hits = target.ledger.unmarked
    expect(not hits and (not answer.raw or answer.statuses[-1] in (400, 408, 426, 505)), f"answered {answer.raw[:100]!r}", data)
    expect(answer.is_closed, "left open", data)
    return REFUSED


async def _upgrade(value: bytes, settings: bytes, site: str, user: str | None, target: Target) -> Outcome:
    first, second = new_marker(), new_marker()
    headers = b"Upgrade: %b\r\nConnection: Upgrade, HTTP2-Settings\r\n%b" % (value, settings)
    data = target.request(b"GET", b"/u", site, user=user, marker=first, headers=headers, close=False)
    behind = target.request(b"GET", b"/second", site, user=user, marker=second)
    answer = await target.send(data + behind)
    statuses = answer.statuses
    expect(101 not in statuses and b"101 Switching" not in answer.raw, "switched protocols", data)
    hits = target.ledger.hits(first) + target.ledger.hits(second)
    is_allowed = site == "public" or user == "alice"
    # A refused handshake may end the connection: the client is not waiting for a second response.
    is_ended = len(statuses) == 1 and 400 <= statuses[0] < 500 and answer.is_closed and not hits
    expect((len(statuses) == 2 or is_ended) and (is_allowed or not hits), f"answered {statuses}", data + behind)
    for hit in hits:
        named = {name.lower() for name, _ in hit.headers}
        expect(not named & {b"upgrade", b"http2-settings", b"connection"}, f"an upstream saw {named}", data)
    return ACCEPTED if hits else REFUSED


async def _alpn(offer: list[str], target: Target) -> Outcome:
    context = ssl.create_default_context(cafile=str(target.gate.certificates.authority))
    if offer:
        context.set_alpn_protocols(offer)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", target.port, ssl=context, server_hostname="public.localhost")
    except (ssl.SSLError, ConnectionError):
        expect(offer and "http/1.1" not in offer, f"refused the offer {offer}")
        return REFUSED
    chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
    expect(chosen in (None, "http/1.1"), f"chose {chosen} of {offer}")
    marker = new_marker()
    writer.write(target.request(b"GET", b"/", "public", marker=marker))
    answer = await reader.read()
    writer.close()
    expect(answer.startswith(b"HTTP/1.1 200"), f"answered {answer[:60]!r}")
    return ACCEPTED
