import pytest

from proxy.listener.https_redirects import HttpsRedirects
from proxy.listener.tls.acme_state import AcmeChallenge, AcmeState
from tests.support.asgi import Answer, http_scope

HEADERS = {"X-Frame-Options": "DENY", "Strict-Transport-Security": "max-age=1"}


async def ask(path, *, host="app.example.com:80", method="GET"):
    scope = http_scope(f"http://{host}{path}", method=method)
    answer = Answer()
    await HttpsRedirects(lambda: HEADERS)(scope, None, answer.send)
    return answer


@pytest.mark.parametrize(
    ("host", "path", "location"),
    [
        ("app.example.com", "/", "https://app.example.com/"),
        ("App.Example.com:8080", "/a/../b%2Fc?x=%41&&y", "https://app.example.com/a/../b%2Fc?x=%41&&y"),
        ("[::1]:80", "//evil.example.com/x", "https://[::1]//evil.example.com/x"),
        ("a.example.com", '/\\evil"<x>', "https://a.example.com/%5Cevil%22%3Cx%3E"),
        ("unknown.example.com", "/.gate/signout/", "https://unknown.example.com/.gate/signout/"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "FROB"])
async def test_redirect_preserves_path_and_query_without_port(host, path, location, method):
    answer = await ask(path, host=host, method=method)
    assert (answer.status, answer.header("location"), answer.body) == (301, location, b"")


async def test_configured_headers_are_set_except_hsts():
    answer = await ask("/")
    assert answer.header("x-frame-options") == "DENY"
    assert answer.values("strict-transport-security") == []
    assert answer.header("connection") == "close"


@pytest.mark.parametrize("path", ["/ping", "/healthz"])
async def test_health_checks_are_answered(path):
    answer = await ask(path, host="127.0.0.1:80")
    assert (answer.status, answer.body) == (200, b"OK\n")
    assert (await ask(path, method="HEAD")).body == b""
    assert (await ask(path, method="POST")).status == 301


@pytest.mark.parametrize("host", ["a_b@c", "x y", "a:b"])
async def test_invalid_host_is_not_redirected(host):
    answer = await ask("/", host=host)
    assert (answer.status, answer.values("location")) == (400, [])


TOKEN = "evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"
PROOF = f"{TOKEN}.9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI"


def pending(kind="http-01", *, is_on=True):
    challenge = AcmeChallenge("app.example.com", kind, TOKEN, PROOF)
    return AcmeState(is_enabled=is_on, pending_challenge={"app.example.com": challenge}.get)


async def request_challenge(acme_state, path=f"/.well-known/acme-challenge/{TOKEN}", *, host="app.example.com", method="GET"):
    answer = Answer()
    await HttpsRedirects(lambda: HEADERS, acme_state)(http_scope(f"http://{host}{path}", method=method), None, answer.send)
    return answer


@pytest.mark.parametrize("host", ["app.example.com", "App.Example.com:80", "app.example.com."])
async def test_authority_gets_key_authorization_of_its_host(host):
    answer = await request_challenge(pending(), host=host)
    assert (answer.status, answer.body) == (200, PROOF.encode())
    assert answer.header("content-type") == "application/octet-stream"


@pytest.mark.parametrize(
    "requests_seen",
    [
        {"host": "other.example.com"},
        {"path": "/.well-known/acme-challenge/"},
        {"path": f"/.well-known/acme-challenge/{TOKEN[:-1]}"},
        {"path": f"/.well-known/acme-challenge/{TOKEN}/"},
        {"path": "/.well-known/acme-challenge/../acme-challenge/x"},
        {"path": f"/.well-known/acme-challenge/%2e/{TOKEN}"},
        {"method": "POST"},
    ],
    ids=str,
)
async def test_other_requests_are_redirected(requests_seen):
    answer = await request_challenge(pending(), **requests_seen)
    assert answer.status == 301
    assert PROOF.encode() not in answer.body


@pytest.mark.parametrize(
    "acme_state",
    [AcmeState(), pending(is_on=False), AcmeState(is_enabled=True), pending("tls-alpn-01")],
    ids=["off", "just switched off", "none", "of TLS"],
)
async def test_other_challenge_is_redirected(acme_state):
    assert (await request_challenge(acme_state)).status == 301
