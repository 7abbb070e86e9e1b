"""ACME client against a small in-process CA. For a real CA see tests/integration."""

import http.server
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from proxy.autocert.acme_client import AcmeClient, AcmeSettings, AuthorityError
from proxy.autocert.stored_certificate import CertificateRequest
from tests.support.children import free_port

HOST = "a.gate.test"
CSR = CertificateRequest.create(HOST, must_staple=False).csr


def authority(directory: str, *, trusted: Path | None = None, account=None, save=lambda account: None, **settings) -> AcmeClient:
    return AcmeClient(AcmeSettings(directory, **settings), trusted, account or {}, save, "gate/tests")


def failure(requests_seen: AcmeClient, *, kind="tls-alpn-01") -> AuthorityError:
    with pytest.raises(AuthorityError) as raised:
        requests_seen.obtain(HOST, CSR, kind, lambda challenge: None)
    requests_seen.close()
    return raised.value


# CA with scripted responses.


class Answers(http.server.BaseHTTPRequestHandler):
    """`script` is path -> status, headers, body."""

    script: dict = {}

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        base = f"http://127.0.0.1:{self.server.server_port}"
        usual = {
            "/dir": (200, {}, {"newNonce": f"{base}/nonce", "newAccount": f"{base}/account", "newOrder": f"{base}/order"}),
            "/nonce": (200, {}, None),
            "/account": (201, {"Location": f"{base}/account/1"}, {"status": "valid"}),
            "/order": (201, {"Location": f"{base}/order/1"}, {"status": "pending", "identifiers": [], "authorizations": [f"{base}/authz"]}),
        }
        status, headers, body = {**usual, **self.script}[self.path]
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        kind = "application/problem+json" if status >= 400 and not isinstance(body, bytes) else "application/json"
        for name, value in {"Content-Type": kind, "Replay-Nonce": "bm9uY2U", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_HEAD = do_POST = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/dir"
        server.shutdown()
        thread.join()


def problem(code: str, detail: str = "no") -> dict:
    return {"type": f"urn:ietf:params:acme:error:{code}", "detail": detail}


LIMIT = problem("rateLimited", "too many\x1b[31m new orders\r\n")


@pytest.mark.parametrize(
    ("path", "answer", "retry_after", "is_global"),
    [
        ("/order", (429, {"Retry-After": "3600"}, LIMIT), 3600, True),
        ("/order", (429, {}, LIMIT), None, True),
        ("/dir", (503, {"Retry-After": "120"}, b"busy"), 120, True),
        ("/dir", (200, {}, b"<html>"), None, True),
        ("/dir", (200, {}, {"newNonce": 1}), None, True),
        ("/nonce", (500, {}, b""), None, True),
        ("/account", (500, {}, problem("serverInternal")), None, True),
        ("/order", (403, {}, problem("rejectedIdentifier", "not this name")), None, False),
        ("/order", (400, {}, problem("badCSR")), None, False),
        ("/order", (400, {}, problem("badNonce")), None, False),
        ("/order", (201, {}, [1, 2]), None, True),
        ("/order", (302, {"Location": "/nowhere"}, None), None, True),
    ],
    ids=str,
)
def test_reports_invalid_response_with_retry_after(monkeypatch, url, path, answer, retry_after, is_global):
    monkeypatch.setattr(Answers, "script", {path: answer, "/nowhere": (404, {}, b"")})
    error = failure(authority(url))
    assert (error.retry_after, error.is_global) == (retry_after, is_global)
    assert str(error).isprintable()
    assert "html" not in str(error)


def test_a_date_is_a_time_to_wait_as_well(monkeypatch, url):
    when = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    monkeypatch.setattr(Answers, "script", {"/order": (429, {"Retry-After": when}, LIMIT)})
    assert 3500 < (failure(authority(url)).retry_after or 0) < 3601
    monkeypatch.setattr(Answers, "script", {"/order": (429, {"Retry-After": "soon"}, LIMIT)})
    assert failure(authority(url)).retry_after is None


def authorization(host: str, *kinds: str) -> tuple:
    challenges = [{"type": kind, "url": "http://127.0.0.1:1/c", "status": "pending", "token": "YWFhYWFhYWFhYWFhYWFhYWFh"} for kind in kinds]
    return 200, {}, {"status": "pending", "identifier": {"type": "dns", "value": host}, "challenges": challenges}


def test_challenge_is_answered_only_for_requested_host(monkeypatch, url):
    monkeypatch.setattr(Answers, "script", {"/authz": authorization("bank.example.com", "tls-alpn-01")})
    assert "another host" in str(failure(authority(url)))


def test_reports_challenge_that_is_not_offered(monkeypatch, url):
    monkeypatch.setattr(Answers, "script", {"/authz": authorization(HOST, "dns-01", "http-01")})
    assert "challenge tls-alpn-01" in str(failure(authority(url)))


def test_reports_unreachable_authority():
    error = failure(authority(f"https://127.0.0.1:{free_port()}/dir"))
    assert error.is_global
    assert "unavailable" in str(error)
