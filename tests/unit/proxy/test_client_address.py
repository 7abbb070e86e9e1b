"""A client's address is believed of trusted proxies alone, and rules compare none that is in doubt."""

import gc
import weakref

import pytest
from structlog.testing import capture_logs

from foundation.telemetry.logs import BoundedLog
from proxy.client_address import TrustedPeers, client_address, source_ip, trusted_peers
from tests.support.asgi import incoming_from


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        ("192.0.2.7", "10.9.9.9", "192.0.2.7"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
        ("10.0.0.1", "a, b", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1:51234", "198.51.100.1"),
        ("10.0.0.1", "[2001:db8::1]:51234, 10.0.0.2", "2001:db8::1"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
    ],
)
def test_the_client_is_named_by_trusted_proxies_only(peer: str, forwarded_for: str, client: str) -> None:
    incoming = incoming_from("https://a.example/", headers={"x-forwarded-for": forwarded_for}, client=peer)
    assert client_address(incoming, TrustedPeers(["10.0.0.0/8"])) == client
    assert client_address(incoming, TrustedPeers([])) == peer


@pytest.mark.parametrize(
    ("peer", "lines", "address"),
    [
        ("192.0.2.7", ["10.9.9.9"], "192.0.2.7"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["6.6.6.6, 198.51.100.1, 10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["6.6.6.6", "198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["6.6.6.6, 198.51.100.1", "10.0.0.2"], "198.51.100.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", [], ""),
        ("10.0.0.1", ["198.51.100.1:443"], "198.51.100.1"),
        ("10.0.0.1", ["[2001:db8::1]:51234, 10.0.0.2:80"], "2001:db8::1"),
        ("10.0.0.1", ["[2001:db8::1]"], "2001:db8::1"),
        ("10.0.0.1", ["198.51.100.1:443:1"], ""),
        ("10.0.0.1", ["198.51.100.1:x"], ""),
        ("10.0.0.1", ["[198.51.100.1"], ""),
        ("10.0.0.1", ["198.51.100.1, unknown, 10.0.0.2"], ""),
        ("10.0.0.1", ["198.51.100.1", ""], ""),
    ],
)
def test_an_address_that_trusted_proxies_leave_in_doubt_is_none_to_rules(peer: str, lines: list[str], address: str) -> None:
    incoming = incoming_from("https://a.example/", client=peer)
    incoming.scope["headers"] += [(b"x-forwarded-for", line.encode()) for line in lines]
    assert source_ip(incoming, TrustedPeers(["10.0.0.0/8"])) == address
    assert source_ip(incoming, TrustedPeers([])) == peer


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "entry"),
    [
        ("10.0.0.1", "203.0.113.9, unknown", "unknown"),
        ("10.0.0.1", "203.0.113.9:1:2", "203.0.113.9:1:2"),
        ("10.0.0.1", "x" * 1000, "x" * 64),
        ("10.0.0.1", "unknown, 203.0.113.9", None),
        ("10.0.0.1", "203.0.113.9:51234", None),
        ("192.0.2.7", "unknown", None),
    ],
)
def test_a_malformed_address_of_a_trusted_proxy_is_logged(
    monkeypatch: pytest.MonkeyPatch, peer: str, forwarded_for: str, entry: str | None
) -> None:
    monkeypatch.setattr("proxy.client_address.MALFORMED", BoundedLog("malformed"))
    incoming = incoming_from("https://a.example/", headers={"x-forwarded-for": forwarded_for}, client=peer)
    with capture_logs() as lines:
        source_ip(incoming, TrustedPeers(["10.0.0.0/8"]))
    expected = [] if entry is None else [("X-Forwarded-For", peer, entry)]
    assert [(line["header"], line["peer"], line["entry"]) for line in lines] == expected


@pytest.mark.parametrize(
    ("address", "is_trusted"), [("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("11.0.0.1", False), ("", False), ("fd00::1", True)]
)
def test_trusted_peers(address: str, is_trusted: bool) -> None:
    assert (address in TrustedPeers(["10.0.0.0/8", "fd00::/8"])) is is_trusted


def test_trusted_peers_are_shared_by_all_routes_and_freed_with_the_last() -> None:
    """Without the collector: it looks at nothing that a configuration became."""
    networks = ("10.0.0.0/8",)
    assert trusted_peers(networks) is trusted_peers(("10.0.0.0/8",))
    peers = TrustedPeers(networks)
    assert "10.0.0.1" in peers
    gone = weakref.ref(peers)
    gc.disable()
    try:
        del peers
        assert gone() is None
    finally:
        gc.enable()
