import pytest

from tests.support.asgi import CURL, NAVIGATION, SCRIPT, incoming_from


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
    assert not incoming_from("https://a.example/", headers={"connection": "upgrade"}).is_upgrade


def test_a_unix_socket_has_no_client_address() -> None:
    incoming = incoming_from("https://a.example/")
    incoming.scope["client"] = None
    assert incoming.client_address == ""
