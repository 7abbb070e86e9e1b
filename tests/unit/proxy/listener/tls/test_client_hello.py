"""ClientHello parsing, with the bytes of real clients."""

import ssl
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.listener.tls.client_hello import MAX_BYTES, ClientHello, ClientHelloParser, UnreadableClientHello


def find(received: bytes) -> ClientHello | None:
    """All of it at once."""
    return ClientHelloParser().feed(received)


def hello(server_name: str | None = "app.example.com", *protocols: str) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(list(protocols))
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=server_name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


ACME = hello("app.example.com", "acme-tls/1")


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (ACME, ClientHello(b"app.example.com", (b"acme-tls/1",))),
        (hello("App.Example.com", "h2", "http/1.1"), ClientHello(b"App.Example.com", (b"h2", b"http/1.1"))),
        (hello(None, "http/1.1"), ClientHello(None, (b"http/1.1",))),
        (hello("127.0.0.1"), ClientHello(None, ())),
        (hello("app.example.com"), ClientHello(b"app.example.com", ())),
    ],
    ids=["acme", "a browser", "no name", "an address", "no protocols"],
)
def test_name_and_protocols_are_found(sent, text):
    assert find(sent) == text
    assert find(sent + b"more") == text


def records(message: bytes, size: int) -> bytes:
    parts = [message[offset : offset + size] for offset in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part for part in parts)


@pytest.mark.parametrize("size", [1, 3, 50, 200])
def test_a_message_in_several_records_is_the_same(size):
    assert find(records(ACME[5:], size)) == find(ACME)


@pytest.mark.parametrize("size", [1, 3, 50, 200])
def test_hello_in_parts_is_parsed_alike(size):
    incoming = ClientHelloParser()
    sent = records(ACME[5:], size)
    for offset in range(len(sent) - 1):
        assert incoming.feed(sent[offset : offset + 1]) is None
    assert incoming.feed(sent[-1:] + b"more") == find(ACME)


def test_each_byte_is_looked_at_once():
    """Many small records cost no more than one, because each byte is parsed once."""
    accepted, sent = [], records(b"\x01\x00\x3f\xf0" + bytes(1000), 1)
    incoming = ClientHelloParser()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, what: accepted.append(event) if event in ("call", "c_call") else None)
    try:
        for offset in range(len(sent)):
            incoming.feed(sent[offset : offset + 1])
    finally:
        sys.setprofile(before)
    assert len(accepted) < 100 * len(sent)


@pytest.mark.parametrize("length", range(0, len(ACME), 7))
def test_a_part_of_one_needs_more(length):
    assert find(ACME[:length]) is None


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
        b"\x16\x03\x01\x00\x04\x01\x00\x00\x00",
        b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + b"\x00" * 16380,
        records(b"\x01\x00\x00\x04" + b"\x03\x03\x00\x00", 100),
    ],
)
def test_refuses_invalid_hello(sent):
    with pytest.raises(UnreadableClientHello):
        find(sent)


def test_client_hello_is_bounded():
    with pytest.raises(UnreadableClientHello):
        find(records(b"\x01\x00\x3f\xf0", 1) + b"\x16\x03\x01\x00\x01\x00" * (2 * MAX_BYTES // 6 + 10))


@given(st.binary(max_size=600), st.integers(0, len(ACME)))
def test_arbitrary_bytes_raise_only_unreadable(junk, offset):
    for sent in (junk, b"\x16\x03\x01" + junk, ACME[:offset] + junk, ACME[:offset] + junk + ACME[offset + len(junk) :]):
        try:
            found = find(sent)
        except UnreadableClientHello:
            continue
        assert found is None or isinstance(found, ClientHello)
