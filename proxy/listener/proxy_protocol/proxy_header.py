"""Strict parser of the PROXY protocol header, versions 1 and 2, which carries the address of the balancer's client. Without I/O.

https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt
"""

import ipaddress
import re
from dataclasses import dataclass

MAX_V1_BYTES = 107  # with its line break; section 2.1
MAX_V2_BYTES = 4096  # addresses take 216, the rest is for TLVs

_V2 = b"\r\n\r\n\0\r\nQUIT\n"
_V2_FIXED = 16
_V1 = b"PROXY "
_LINE = re.compile(r"(TCP4|TCP6) ([0-9A-Fa-f.:]+) ([0-9A-Fa-f.:]+) (0|[1-9][0-9]{0,4}) (0|[1-9][0-9]{0,4})")
_LOCAL, _PROXY = 0x20, 0x21  # version 2, and the command
_UNSPECIFIED, _TCP4, _TCP6, _UNIX = 0x00, 0x11, 0x21, 0x31
_ADDRESS_BYTES = {_TCP4: 12, _TCP6: 36, _UNIX: 216}
_TLV_HEAD = 3


class MalformedProxyHeader(ValueError):
    """The data is no PROXY protocol header, or one that gate does not trust."""


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """PROXY protocol header.

    `length` is its size in bytes. `source` is the (address, port) of the balancer's client, ("", 0) for a client without an address,
    or None if the connection is the balancer's own.
    """

    length: int
    source: tuple[str, int] | None


# enforcement-point: Requests: PROXY protocol header
def parse_header(data: bytes) -> ProxyHeader | None:
    """Parse the header at the start of `data`. Return None while more data is needed.

    Raises MalformedProxyHeader as soon as further data cannot make the header valid.
    """
    if data[: len(_V2)] == _V2[: len(data)]:
        return _parse_v2(data) if len(data) >= _V2_FIXED else None
    if data[: len(_V1)] == _V1[: len(data)]:
        end = data.find(b"\r\n", 0, MAX_V1_BYTES)
        if end >= 0:
            return ProxyHeader(end + 2, _parse_v1(data[len(_V1) : end]))
        if len(data) < MAX_V1_BYTES:
            return None
    raise MalformedProxyHeader("the connection does not start with a PROXY header")


def _parse_v1(line: bytes) -> tuple[str, int] | None:
    text = line.decode("latin-1")
    if text == "UNKNOWN" or text.startswith("UNKNOWN "):
        return None
    match = _LINE.fullmatch(text)
    if match is None:
        raise MalformedProxyHeader("the PROXY line is malformed")
    family = ipaddress.IPv4Address if match[1] == "TCP4" else ipaddress.IPv6Address
    try:
        source, _ = family(match[2]), family(match[3])
    except ValueError:
        raise MalformedProxyHeader("the PROXY line names no address of its family") from None
    if int(match[4]) > 65535 or int(match[5]) > 65535:
        raise MalformedProxyHeader("the PROXY line names no port")
    return str(source), int(match[4])


def _parse_v2(data: bytes) -> ProxyHeader | None:
    command, family = data[12], data[13]
    length = _V2_FIXED + int.from_bytes(data[14:16], "big")
    if command not in (_LOCAL, _PROXY):
        raise MalformedProxyHeader("the PROXY header has an unknown version or command")
    if family != _UNSPECIFIED and family not in _ADDRESS_BYTES:
        raise MalformedProxyHeader("the PROXY header is of an unknown family, or not of a stream")
    if length > MAX_V2_BYTES:
        raise MalformedProxyHeader("the PROXY header is too long")
    addresses_end = _V2_FIXED + _ADDRESS_BYTES.get(family, 0)
    if command == _PROXY and length < addresses_end:
        raise MalformedProxyHeader("the PROXY header is too short for its addresses")
    if len(data) < length:
        return None
    if command == _LOCAL or family == _UNSPECIFIED:
        return ProxyHeader(length, None)
    _check_tlvs(data[addresses_end:length])
    addresses = data[_V2_FIXED:addresses_end]
    if family == _UNIX:
        return ProxyHeader(length, ("", 0))
    size = 4 if family == _TCP4 else 16
    port = int.from_bytes(addresses[2 * size : 2 * size + 2], "big")
    return ProxyHeader(length, (str(ipaddress.ip_address(addresses[:size])), port))


def _check_tlvs(data: bytes) -> None:
    """Check that the TLV lengths add up. Their values are not used."""
    offset = 0
    while offset < len(data):
        offset += _TLV_HEAD + int.from_bytes(data[offset + 1 : offset + _TLV_HEAD], "big")
    if offset != len(data):
        raise MalformedProxyHeader("the PROXY header's extensions do not fit into it")
