"""Error pages of the running product, from gate and from Envoy: each names the next step and a contact."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from foundation.web.problem_details import default_advice
from tests.support.browser import headless_browser
from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import AUTHENTICATE_HOST, GateBuilder, RunningGate, sign_in
from tests.support.next_steps import next_steps
from tests.support.raw_http import RawClient
from tests.support.upstream import SampleUpstream

APP, STAFF, OPEN, BROKEN, TUNNEL = (f"{name}.localhost" for name in ("app", "staff", "open", "broken", "db"))
ANONYMOUS, FORWARD = "nobody.localhost", "fwd.localhost"
HTML = {"accept": "text/html,*/*;q=0.8", "sec-fetch-mode": "navigate"}
WEBSOCKET = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "7"}


@dataclass(frozen=True)
class Failing:
    """Request that fails with a page."""

    status: int
    host: str
    path: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)


FAILING = {
    "no such host": Failing(404, ANONYMOUS, "/"),
    "an address for tunnels": Failing(404, TUNNEL, "/"),
    "an odd path": Failing(400, OPEN, "/a%00b"),
    "an odd websocket": Failing(426, OPEN, "/", headers=WEBSOCKET),
    "no application": Failing(502, BROKEN, "/"),
    "not allowed": Failing(403, STAFF, "/"),
    "a page of a route host": Failing(404, APP, "/.gate/nothing"),
    "a link of no sign-in": Failing(400, OPEN, "/.gate/callback/"),
    "a program's sign-in": Failing(400, APP, "/.gate/api/v1/login"),
    "the assertion without a session": Failing(401, OPEN, "/.gate/jwt"),
    "a sign-in that leads elsewhere": Failing(400, APP, "/.gate/sign_in?gate_redirect_uri=https://evil.example/"),
    "an unknown saved form": Failing(410, APP, "/.gate/form/AAAAAAAAAAAAAAAAAAAAAA"),
    "a page of the authenticate host": Failing(404, AUTHENTICATE_HOST, "/.gate/nothing"),
    "an icon": Failing(404, AUTHENTICATE_HOST, "/.gate/icons/none"),
    "a sign-in without proof": Failing(400, AUTHENTICATE_HOST, "/.gate/sign_in"),
    "a callback of no sign-in": Failing(400, AUTHENTICATE_HOST, "/oauth2/callback?state=x&code=y"),
    "a program's link": Failing(400, AUTHENTICATE_HOST, "/.gate/program?request=x"),
    "a reload of a button": Failing(405, AUTHENTICATE_HOST, "/.gate/refresh"),
    "a page that only shows": Failing(405, AUTHENTICATE_HOST, "/.gate/why", "POST"),
    "a file for robots": Failing(405, AUTHENTICATE_HOST, "/robots.txt", "POST"),
    "the admin": Failing(403, AUTHENTICATE_HOST, "/.gate/admin/login/"),
    "a front proxy that asks nothing": Failing(400, FORWARD, "/"),
    "a front proxy at another path": Failing(404, FORWARD, "/nothing"),
}


@pytest.fixture(scope="module", params=["embedded", "envoy"])
def gate(
    request: pytest.FixtureRequest, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGate]:
    builder = (
        GateBuilder(provider.url)
        .route(APP, to=upstream.url, allow_any_authenticated_user=True)
        .route(STAFF, to=upstream.url, allowed_groups=["engineering"])
        .route(OPEN, to=upstream.url, allow_public_unauthenticated_access=True, allow_websockets=True)
        .route(BROKEN, to=f"http://127.0.0.1:{free_port()}", allow_public_unauthenticated_access=True)
        .setting(data_plane=request.param, groups_claim="groups", support_contact="help@corp.example", admin_allowed_users=["x@y.example"])
    )
    builder.setting(forward_auth_url=builder.url(FORWARD, ""))
    builder.policy.append({"from": f"tcp+https://{TUNNEL}:22", "to": "tcp://127.0.0.1:9", "allow_any_authenticated_user": True})
    with builder.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.mark.parametrize("failing", FAILING.values(), ids=FAILING)
async def test_error_page_has_next_step_and_contact(gate: RunningGate, failing: Failing) -> None:
    async with gate.client() as client:
        if failing.status in (403, 410):
            await sign_in(client, gate.url(APP), "carol")
        # The certificate is for hosts of routes alone.
        at = APP if failing.host in (ANONYMOUS, FORWARD) else failing.host
        headers = {**HTML, "host": f"{failing.host}:{gate.port}", **failing.headers}
        if failing.status == 403:
            page = await client.get(gate.url(at, failing.path), headers=HTML, follow_redirects=True)
        else:
            page = await client.request(failing.method, gate.url(at, failing.path), headers=headers)
    assert page.status_code == failing.status, page.text
    assert page.headers["content-type"].startswith("text/html"), page.text
    assert next_steps(page.text), page.text
    assert 'href="mailto:help@corp.example?subject=Help%20with%20' in page.text


def test_sign_in_as_another_user_returns_to_the_page(
    gate: RunningGate, provider: DevelopmentProvider, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wanted = gate.url(STAFF, "/wages?year=2026")
    with headless_browser(tmp_path_factory.mktemp("profile"), trusted_spki=gate.certificates.spki_hash) as browser:
        browser.sign_in(provider.url, wanted, "carol")
        assert "carol@example.com" in browser.text
        browser.click("a[href*=signout]")
        browser.wait_for_url(gate.url(AUTHENTICATE_HOST, "/.gate/signout/"))
        browser.click("form button")
        browser.wait_for_url(f"{provider.url}/oauth2/end_session")
        browser.click("form button")
        browser.wait_for_url(f"{provider.url}/oauth2/authorize")
        browser.click('button[value="alice"]')
        browser.wait_for_url(wanted)
        assert '"target": "/wages?year=2026"' in browser.text, "the application's own answer"


UNREADABLE = {
    "headers too large": (b"GET / HTTP/1.1\r\nHost: %b\r\nCookie: " + b"a" * 70_000 + b"\r\n\r\n", 431),
    "an unknown transfer coding": (b"GET / HTTP/1.1\r\nHost: %b\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    "a malformed header": (b"GET / HTTP/1.1\r\nHost: %b\r\nX y: 1\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "HTTP/1.0": (b"GET / HTTP/1.0\r\nHost: %b\r\n\r\n", 426),
    "no request": (b"nonsense\r\n\r\n", 400),
}


@pytest.mark.parametrize(("unreadable", "status"), UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_input_is_answered_with_next_step_and_logged(gate: RunningGate, unreadable: bytes, status: int) -> None:
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=OPEN) as client:
        client.send(unreadable.replace(b"%b", b"%b:%d" % (OPEN.encode(), gate.port)))
        answer = client.response()
    assert answer.status == status, answer
    assert answer.body.decode().splitlines()[1:] == [default_advice(status)], answer
    assert status != 426 or b"proxy_http_version 1.1" in answer.body
    request_id = answer.header("x-request-id")
    line = gate.wait_for_event("request rejected by listener", lambda line: line["request_id"] == request_id)
    assert (line["client_address"], line["status"]) == ("127.0.0.1", status)
    assert line["reason"]
