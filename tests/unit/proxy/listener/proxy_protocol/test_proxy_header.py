import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.listener.proxy_protocol.proxy_header import MAX_V1_BYTES, MAX_V2_BYTES, MalformedProxyHeader, ProxyHeader, parse_header

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
TCP4, TCP6, UNIX = 0x11, 0x21, 0x31


def v2(command=0x21, family=TCP4, addresses=b"", tlvs=b"", length=None):
    rest = addresses + tlvs
    return SIGNATURE + bytes([command, family]) + struct.pack("!H", len(rest) if length is None else length) + rest


def tcp4(source="192.0.2.1", port=1234):
    return ipaddress.ip_address(source).packed + bytes([10, 0, 0, 1]) + struct.pack("!HH", port, 443)


def tcp6(source="2001:db8::1", port=1234):
    return ipaddress.ip_address(source).packed + bytes(16) + struct.pack("!HH", port, 443)


VALID = [
    (b"PROXY TCP4 192.0.2.1 10.0.0.1 1234 443\r\n", ("192.0.2.1", 1234)),
    (b"PROXY TCP6 2001:DB8::1 ::1 65535 0\r\n", ("2001:db8::1", 65535)),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN ffff:f ::1 anything 1\r\n", None),
    (v2(addresses=tcp4()), ("192.0.2.1", 1234)),
    (v2(family=TCP6, addresses=tcp6()), ("2001:db8::1", 1234)),
    (v2(addresses=tcp4(), tlvs=b"\x01\x00\x02h2\x04\x00\x00"), ("192.0.2.1", 1234)),
    (v2(family=UNIX, addresses=bytes(216)), ("", 0)),
    (v2(command=0x20, family=0), None),
    (v2(command=0x20, family=TCP4, addresses=tcp4()), None),
    (v2(command=0x20, family=0, tlvs=b"\x04\x00\x00"), None),
    (v2(family=0), None),
]
BAD = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00",
    b"proxy TCP4 192.0.2.1 10.0.0.1 1234 443\r\n",
    b"PROXY  TCP4 192.0.2.1 10.0.0.1 1234 443\r\n",
    b"PROXY TCP4  192.0.2.1 10.0.0.1 1234 443\r\n",
    b"PROXY TCP4 192.0.2.1 10.0.0.1 1234 443 \r\n",
    b"PROXY TCP4 192.0.2.1 10.0.0.1 1234\r\n",
    b"PROXY TCP4 192.0.2.1 10.0.0.1 1234 65536\r\n",
    b"PROXY TCP4 192.0.2.1 10.0.0.1 01234 443\r\n",
    b"PROXY TCP4 192.0.2.1 10.0.0.1 +1234 443\r\n",
    b"PROXY TCP4 192.0.2.256 10.0.0.1 1234 443\r\n",
    b"PROXY TCP4 192.0.2.01 10.0.0.1 1234 443\r\n",
    b"PROXY TCP4 2001:db8::1 ::1 1234 443\r\n",
    b"PROXY TCP6 192.0.2.1 10.0.0.1 1234 443\r\n",
    b"PROXY TCP5 192.0.2.1 10.0.0.1 1234 443\r\n",
    b"PROXY UDP4 192.0.2.1 10.0.0.1 1234 443\r\n",
    b"PROXY TCP4 192.0.2.1 10.0.0.1 1234 443\n\r\n",
    b"PROXY UNKNOWNS\r\n",
    b"PROXY " + b"x" * MAX_V1_BYTES,
    b"PROXY UNKNOWN " + b"x" * MAX_V1_BYTES + b"\r\n",
    v2(command=0x11, addresses=tcp4()),
    v2(command=0x22, addresses=tcp4()),
    v2(family=0x12, addresses=tcp4()),
    v2(family=0x41, addresses=tcp4()),
    v2(addresses=tcp4()[:-1]),
    v2(family=TCP6, addresses=tcp4()),
    v2(family=UNIX, addresses=bytes(215)),
    v2(addresses=tcp4(), tlvs=b"\x01\x00\x05h2"),
    v2(addresses=tcp4(), tlvs=b"\x01\x00"),
    v2(addresses=tcp4(), length=MAX_V2_BYTES),
    SIGNATURE[:-1] + b"x" + v2(addresses=tcp4())[12:],
]


@pytest.mark.parametrize(("header", "source"), VALID)
def test_parses_client_address(header, source):
    assert parse_header(header + b"GET /") == ProxyHeader(len(header), source)


@pytest.mark.parametrize(("header", "source"), VALID)
def test_a_header_in_pieces_is_waited_for(header, source):
    for end in range(len(header)):
        assert parse_header(header[:end]) is None
    assert parse_header(header) == ProxyHeader(len(header), source)


@pytest.mark.parametrize("data", BAD)
def test_refuses_malformed_proxy_header(data):
    with pytest.raises(MalformedProxyHeader):
        parse_header(data)


@pytest.mark.parametrize("data", BAD)
def test_refuses_malformed_proxy_header_in_pieces(data):
    def refused_after():
        for end in range(1, len(data) + 1):
            try:
                assert parse_header(data[:end]) is None
            except MalformedProxyHeader:
                return end
        raise AssertionError("was accepted")

    assert refused_after() <= len(data)


@given(st.binary(max_size=400), st.sampled_from([b"", b"PROXY ", SIGNATURE, SIGNATURE + b"\x21\x11"]))
def test_arbitrary_bytes_are_parsed_or_refused(data, start):
    try:
        found = parse_header(start + data)
    except MalformedProxyHeader:
        return
    if found is None:
        assert len(start + data) < MAX_V2_BYTES
    else:
        assert 0 < found.length <= len(start + data)
        if found.source not in (None, ("", 0)):
            ipaddress.ip_address(found.source[0])
