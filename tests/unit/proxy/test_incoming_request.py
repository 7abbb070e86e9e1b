import pytest

from proxy.incoming_request import TLS_EXTENSION, BodyTooLarge, client_certificate, limit_body, new_request_id
from tests.support.asgi import CURL, NAVIGATION, SCRIPT, chunked_receive, incoming_from
from tests.support.client_certificates import authority

ANN = authority().issue("ann")


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
def test_scripts_are_distinguished_from_browsers_and_plain_clients(headers: dict[str, str], is_script: bool) -> None:
    assert incoming_from("https://a.example/", headers=headers).is_script_request is is_script


HTML = {"accept": "text/html"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
BASIC = {"authorization": "Basic YTpi"}
WEBVIEW = {"x-requested-with": "com.example.app"}
PARTS = {"content-type": "Multipart/Form-Data; boundary=x"}


@pytest.mark.parametrize(
    ("method", "headers", "is_navigation"),
    [
        ("GET", NAVIGATION, True),
        ("GET", HTML, True),
        ("HEAD", HTML, True),
        ("GET", {"sec-fetch-mode": "navigate", "accept": "application/json"}, True),
        ("POST", NAVIGATION | FORM, True),
        ("POST", HTML | PARTS, True),
        ("POST", HTML | {"content-type": "text/plain"}, True),
        ("POST", NAVIGATION, False),
        ("POST", HTML | {"content-type": "application/json"}, False),
        ("POST", HTML | {"content-type": "application/grpc"}, False),
        *((method, NAVIGATION | FORM, False) for method in ("PUT", "DELETE", "OPTIONS", "PROPFIND", "REPORT", "QUERY")),
        ("GET", SCRIPT, False),
        ("GET", HTML | {"sec-fetch-mode": "no-cors"}, False),
        ("GET", HTML | {"sec-fetch-site": "same-origin"}, False),
        ("GET", HTML | {"sec-fetch-dest": "image"}, False),
        ("GET", CURL, False),
        ("GET", {}, False),
        ("GET", {"accept": "application/vnd.docker.distribution.manifest.v2+json"}, False),
        ("POST", CURL | FORM, False),  # curl --data
        *((method, NAVIGATION | BASIC, True) for method in ("GET", "HEAD")),
        ("POST", NAVIGATION | FORM | BASIC, True),
        ("GET", NAVIGATION | WEBVIEW, True),
        ("GET", NAVIGATION | BASIC | {"sec-fetch-mode": "cors"}, False),
        ("POST", NAVIGATION | BASIC | {"content-type": "application/json"}, False),
        ("PROPFIND", NAVIGATION | BASIC, False),
        ("GET", HTML | BASIC, False),
        ("GET", HTML | WEBVIEW, False),
        ("GET", HTML | {"upgrade": "websocket", "connection": "Upgrade"}, False),
    ],
)
def test_navigation_is_detected_by_browser_headers(method: str, headers: dict[str, str], is_navigation: bool) -> None:
    assert incoming_from("https://a.example/", method=method, headers=headers).is_navigation is is_navigation


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
    ("server_name", "counts"),
    [("a.example", True), ("A.example.", True), (None, True), ("b.example", False), ("", False), ("a.example.evil", False)],
)
def test_a_certificate_counts_for_the_host_that_the_connection_was_opened_for(server_name: str | None, counts: bool) -> None:
    incoming = incoming_from("https://a.example:8443/")
    incoming.scope["extensions"] = {TLS_EXTENSION: {"server_name": server_name, "chain": (ANN.der,)}}
    assert (client_certificate(incoming) is not None) is counts


def test_without_tls_or_a_certificate_there_is_none() -> None:
    incoming = incoming_from("https://a.example/")
    assert client_certificate(incoming) is None
    incoming.scope["extensions"] = {TLS_EXTENSION: {"server_name": "a.example", "chain": ()}}
    assert client_certificate(incoming) is None


async def test_body_for_gate_page_is_cut_at_its_limit() -> None:
    receive = limit_body(chunked_receive(b"12345", b"67890"), 10)
    assert [(await receive())["body"] for _ in range(2)] == [b"12345", b"67890"]
    receive = limit_body(chunked_receive(b"12345", b"67890"), 9)
    await receive()
    with pytest.raises(BodyTooLarge):
        await receive()


def test_request_ids_are_32_hex_digits_and_never_repeat() -> None:
    ids = {new_request_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(request_id) == 32 and int(request_id, 16) >= 0 for request_id in ids)
