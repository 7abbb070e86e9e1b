import pytest

from proxy.headers import TrustedPeers
from proxy.incoming import BodyTooLarge, bounded, client_address
from tests.support.asgi import CURL, NAVIGATION, SCRIPT, body_of, incoming_from


@pytest.mark.parametrize(
    ("headers", "is_script"),
    [
        (NAVIGATION, False),
        (SCRIPT, True),
        ({"sec-fetch-mode": "no-cors"}, True),
        ({"x-requested-with": "XMLHttpRequest", "accept": "text/html"}, True),
        ({"accept": "application/json"}, True),
        ({"accept": "application/json, text/html"}, False),
        ({"accept": "application/json", "sec-fetch-mode": "navigate"}, False),
        (CURL, False),
        ({}, False),
    ],
)
def test_scripts_are_told_from_people_and_plain_clients(headers: dict[str, str], is_script: bool) -> None:
    assert incoming_from("https://a.example/", headers=headers).is_script is is_script


def test_an_upgrade_needs_both_headers() -> None:
    both = {"connection": "keep-alive, Upgrade", "upgrade": "websocket"}
    assert incoming_from("https://a.example/", headers=both).is_upgrade
    assert not incoming_from("https://a.example/", headers={"upgrade": "websocket"}).is_upgrade
    two_lines = incoming_from("https://a.example/", headers={"upgrade": "websocket", "connection": "Upgrade"})
    two_lines.scope["headers"].append((b"connection", b"keep-alive"))
    assert two_lines.is_upgrade
    assert not incoming_from("https://a.example/", headers={"connection": "upgrade"}).is_upgrade


def test_a_unix_socket_has_no_client_address() -> None:
    incoming = incoming_from("https://a.example/")
    incoming.scope["client"] = None
    assert incoming.peer == ""


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        ("192.0.2.7", "10.9.9.9", "192.0.2.7"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
        ("10.0.0.1", "a, b", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
    ],
)
def test_the_client_is_named_by_trusted_proxies_only(peer: str, forwarded_for: str, client: str) -> None:
    incoming = incoming_from("https://a.example/", headers={"x-forwarded-for": forwarded_for}, client=peer)
    assert client_address(incoming, TrustedPeers(["10.0.0.0/8"])) == client
    assert client_address(incoming, TrustedPeers([])) == peer


async def test_a_body_for_a_page_of_ours_is_cut_at_its_bound() -> None:
    receive = bounded(body_of(b"12345", b"67890"), 10)
    assert [(await receive())["body"] for _ in range(2)] == [b"12345", b"67890"]
    receive = bounded(body_of(b"12345", b"67890"), 9)
    await receive()
    with pytest.raises(BodyTooLarge):
        await receive()
