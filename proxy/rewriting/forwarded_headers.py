"""Forwarding headers of upstream requests: all six agree on client, scheme, host and port, whichever of them an application reads."""

import re
from collections.abc import Sequence

from foundation.bounded_cache import MemoCache, total_length
from foundation.values import parse_ip
from foundation.web.asgi_types import Header
from proxy.client_address import TrustedPeers, forwarded_hops, last_untrusted

_PLAIN_HOST = re.compile(rb"[A-Za-z0-9.:_\[\]-]+")
_DEFAULT_PORTS = {b"http": b"80", b"ws": b"80", b"https": b"443", b"wss": b"443"}

# RFC 7239 4. A quoted string with an escape is treated as malformed, so the header is ignored.
_PAIR = rb'[ \t]*([A-Za-z]+)=(?:"([^"\\]*)"|([^\s",;=]+))[ \t]*'
_FORWARDED = re.compile(rb"%s(?:[;,]%s)*" % (_PAIR, _PAIR))
_EACH_PAIR = re.compile(_PAIR)


def _build(key: tuple[str, str, bytes, tuple[Header, ...], bool, TrustedPeers | None]) -> tuple[Header, ...]:
    """Return the forwarding headers for a key.

    The key is (peer address, scheme, Host, forwarding headers of a trusted peer, whether to append the peer, trusted peers or None).
    """
    peer, connection_scheme, connection_host, trusted_headers, append, trusted = key
    by_name: dict[bytes, list[bytes]] = {}
    for name, value in trusted_headers:
        by_name.setdefault(name, []).append(value)
    values = _from_forwarded(by_name[b"forwarded"]) if by_name.keys() == {b"forwarded"} else by_name
    chain = [hop for hop in values.get(b"x-forwarded-for", []) if hop] or _real_ip(values)
    client = peer if trusted is None else last_untrusted(peer, forwarded_hops(b",".join(chain).decode("latin-1")), trusted)
    scheme = _last(values, b"x-forwarded-proto").lower()
    scheme = scheme if scheme in _DEFAULT_PORTS else connection_scheme.encode()
    host = _last(values, b"x-forwarded-host")
    host = host if _PLAIN_HOST.fullmatch(host) else connection_host
    port = _port(scheme, host, _last(values, b"x-forwarded-port"))
    headers = {
        b"x-forwarded-for": b", ".join([*chain, peer.encode()] if append and peer else chain),
        b"x-forwarded-proto": scheme,
        b"x-forwarded-host": host,
        b"x-forwarded-port": port,
        b"x-real-ip": client.encode(),
        b"forwarded": _forwarded(client, scheme, host, port) if append or b"forwarded" in by_name else b"",
    }
    return tuple((name, value) for name, value in headers.items() if value)


FORWARDED_HEADER_CACHE = MemoCache(_build, 1024, max_key_length=1024, size=total_length)


def _real_ip(values: dict[bytes, list[bytes]]) -> list[bytes]:
    """Return the address in X-Real-IP, for a peer that sends no X-Forwarded-For."""
    real = forwarded_hops(_last(values, b"x-real-ip").decode("latin-1"))[-1]
    return [] if parse_ip(real) is None else [real.encode()]


def _last(values: dict[bytes, list[bytes]], name: bytes) -> bytes:
    """Return the last element of a header, which the nearest proxy wrote; empty if there is none."""
    return values[name][-1].rpartition(b",")[2].strip(b" \t") if name in values else b""


def _from_forwarded(values: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    """Return the X-Forwarded-* equivalents of `Forwarded` (RFC 7239 7.4); none if it is malformed."""
    value = b",".join(values)
    by_name: dict[bytes, list[bytes]] = {}
    if _FORWARDED.fullmatch(value):
        for name, quoted, token in _EACH_PAIR.findall(value):
            by_name.setdefault(b"x-forwarded-" + name.lower(), []).append(quoted or token)
    hops = forwarded_hops(b",".join(by_name.get(b"x-forwarded-for", [])).decode("latin-1"))
    return by_name | {b"x-forwarded-for": [hop.encode("latin-1") for hop in hops]}


def _port(scheme: bytes, host: bytes, forwarded_port: bytes) -> bytes:
    """Return the port in `host`; else `forwarded_port`, unless it is the other scheme's default port; else the scheme's default."""
    _, colon, port = host.rpartition(b":")
    if colon and port.isdigit():
        return port
    default = _DEFAULT_PORTS[scheme]
    is_possible = forwarded_port.isdigit() and len(forwarded_port) <= 5 and forwarded_port not in {*_DEFAULT_PORTS.values()} - {default}
    return forwarded_port if is_possible else default


def _forwarded(client: str, scheme: bytes, host: bytes, port: bytes) -> bytes:
    """Return `Forwarded` (RFC 7239 4), with IPv6 addresses in brackets and values that contain a colon in quotes."""
    node = f'"[{client}]"' if ":" in client else client or "unknown"
    if port != _DEFAULT_PORTS[scheme] and not host.endswith(b":" + port):
        host += b":" + port
    parts = [b"for=" + node.encode(), b"proto=" + scheme]
    if _PLAIN_HOST.fullmatch(host):
        parts.insert(1, b'host="' + host + b'"')
    return b";".join(parts)
