"""Authorization endpoint: nothing is sent to an unverified redirect URI, and only the signed-in user consents, on this page."""

import html
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from authenticate.oauth.client_documents import ClientDocumentError, parse_document
from databroker.records import CONSENT, SessionRecord
from tests.support.agents import (
    CLIENT,
    LOOPBACK_URI,
    OTHER_RESOURCE,
    REDIRECT_URI,
    RESOURCE,
    SECRET_CLIENT,
    SETTINGS,
    allow,
    answer_of,
    authorize_params,
    authorize_url,
    form_of,
)
from tests.support.authenticate_site import ORIGIN, Browser, Response, Site

DOCUMENT_URL = "https://published.example.com/client.json"
DOCUMENT = b"""{"client_id": "https://published.example.com/client.json", "client_name": "Published <b>agent</b>",
    "redirect_uris": ["https://client.example.com/callback", "http://127.0.0.1/callback"]}"""


async def signed_in(site: Site, sub: str = "alice") -> Browser:
    browser = site.browser()
    await browser.sign_in(sub)
    return browser


def publish(site: Site, monkeypatch: pytest.MonkeyPatch, fetched: list[str]) -> None:
    """Make the metadata document available without a network."""

    async def get(url: str) -> Any:
        fetched.append(url)
        return parse_document(DOCUMENT_URL, DOCUMENT)

    monkeypatch.setattr(site.service.agents.clients.documents, "get", get)


async def test_consent_page_names_everything(agent_site: Site) -> None:
    page = await (await signed_in(agent_site)).get(authorize_url(redirect_uri=LOOPBACK_URI, scope="tickets:read"))
    assert page.status == 200
    for displayed in ("Ticket agent", "Ticket tools", RESOURCE, "127.0.0.1:49152", "Read tickets", "tickets:read", "alice@corp.example"):
        assert displayed in html.unescape(page.text)
    assert "Change tickets" not in page.text
    assert "can claim to be" in page.text
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "script-src" not in policy
    assert (page.headers["x-frame-options"], page.headers["cache-control"]) == ("DENY", "no-store")


@pytest.mark.parametrize(("changed", "is_warned"), [({}, False), ({"redirect_uri": LOOPBACK_URI}, True)])
async def test_loopback_warning(agent_site: Site, changed: dict[str, str], is_warned: bool) -> None:
    page = await (await signed_in(agent_site)).get(authorize_url(**changed))
    assert ("can claim to be" in page.text) is is_warned


async def test_sign_in_precedes_consent(agent_site: Site) -> None:
    browser = agent_site.browser()
    to_sign_in = (await browser.get(authorize_url())).location
    assert to_sign_in.startswith(f"{ORIGIN}/.gate/sign_in")
    back = await browser.get(agent_site.idp.pick((await browser.get(to_sign_in)).location, "alice"))
    assert back.location == authorize_url()


async def test_client_gets_code_state_and_issuer(agent_site: Site) -> None:
    location = await allow(agent_site, agent_site.browser())
    assert location.startswith(f"{REDIRECT_URI}?")
    answer = answer_of(location)
    assert set(answer) == {"code", "state", "iss"}
    assert (answer["state"], answer["iss"]) == ("the state", ORIGIN)


async def test_denial_is_returned_to_the_client(agent_site: Site) -> None:
    browser = await signed_in(agent_site)
    action, fields = form_of(await browser.get(authorize_url()))
    response = await browser.post(action, {**fields, "decision": "deny"})
    assert response.status == 303
    answer = answer_of(response.headers["location"])
    assert response.headers["location"].startswith(f"{REDIRECT_URI}?")
    assert (answer["error"], answer["state"], answer["iss"]) == ("access_denied", "the state", ORIGIN)
    assert len(await agent_site.sessions()) == 1


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": '"><script>'}, "unsupported_response_type"),
        ({"response_type": ""}, "unsupported_response_type"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": ""}, "invalid_request"),
        ({"resource": ""}, "invalid_target"),
        ({"resource": "https://unknown.example.com"}, "invalid_target"),
        ({"resource": f"{RESOURCE}#x"}, "invalid_target"),
        ({"resource": "https://app.example.com"}, "invalid_target"),
        ({"scope": "admin"}, "invalid_scope"),
        ({"scope": "tickets:read admin"}, "invalid_scope"),
        ({"resource": OTHER_RESOURCE, "scope": "tickets:read"}, "invalid_scope"),
    ],
)
@pytest.mark.parametrize("has_session", [False, True])
async def test_errors_of_a_verified_client_go_to_it(agent_site: Site, changed: dict[str, str], error: str, has_session: bool) -> None:
    browser = await signed_in(agent_site) if has_session else agent_site.browser()
    location = (await browser.get(authorize_url(**changed))).location
    assert location.startswith(f"{REDIRECT_URI}?")
    answer = answer_of(location)
    assert (answer["error"], answer["state"], answer["iss"]) == (error, "the state", ORIGIN)
    assert "code" not in answer


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": ""},
        {"client_id": "unknown"},
        {"client_id": '"><script>alert(1)</script>'},
        {"client_id": "https://10.0.0.1/x?y"},
        {"redirect_uri": ""},
        {"redirect_uri": "https://evil.example/"},
        {"redirect_uri": f"{REDIRECT_URI}/../evil"},
        {"redirect_uri": f"{REDIRECT_URI}?x"},
        {"redirect_uri": f"{REDIRECT_URI}#x"},
        {"redirect_uri": "https://client.example.com@evil.example/callback"},
        {"redirect_uri": "https://client.example.com:8443/callback"},
        {"redirect_uri": "http://127.0.0.1:1/other"},
        {"redirect_uri": "http://localhost:1/callback"},
        {"redirect_uri": "javascript:alert(1)"},
        {"redirect_uri": "data:text/html,x"},
        {"redirect_uri": LOOPBACK_URI, "client_id": SECRET_CLIENT},
        {"redirect_uri": "https://evil.example/", "response_type": "token"},
        {"redirect_uri": "https://evil.example/", "resource": ""},
        {"redirect_uri": "https://evil.example/", "code_challenge": ""},
    ],
)
@pytest.mark.parametrize("has_session", [False, True])
async def test_unverified_redirect_uri_gets_nothing(agent_site: Site, changed: dict[str, str], has_session: bool) -> None:
    browser = await signed_in(agent_site) if has_session else agent_site.browser()
    page = await browser.get(authorize_url(**changed))
    assert page.status == 400, page.headers
    assert "<script" not in page.text
    assert "location" not in page.headers


@pytest.mark.parametrize("name", ["client_id", "redirect_uri", "resource", "state", "code_challenge", "scope"])
async def test_repeated_parameters(agent_site: Site, name: str) -> None:
    pairs = [*authorize_params(scope="tickets:read").items(), (name, "https://evil.example/")]
    page = await (await signed_in(agent_site)).get(f"{ORIGIN}/.gate/oauth/authorize?{urlencode(pairs)}")
    assert page.status == 400
    assert "repeated" in page.text


@pytest.mark.parametrize("query", ["x" * 3000, "%ff=%ff", "a=b#", "&".join(f"p{number}=x" for number in range(60))])
async def test_unreadable_queries(agent_site: Site, query: str) -> None:
    page = await (await signed_in(agent_site)).get(f"{ORIGIN}/.gate/oauth/authorize?{query}")
    assert page.status == 400
    assert "location" not in page.headers


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD"])
async def test_other_methods(agent_site: Site, method: str) -> None:
    assert (await agent_site.browser().get(authorize_url(), method=method)).status == 405


async def decided(site: Site, browser: Browser, form: dict[str, str], url: str | None = None, **headers: str) -> Response:
    return await browser.post(url or authorize_url(), form, **headers)


async def test_consent_needs_the_csrf_token_of_the_session(agent_site: Site) -> None:
    browser, other = await signed_in(agent_site), await signed_in(agent_site, "bob")
    _, fields = form_of(await browser.get(authorize_url()))
    _, stolen = form_of(await other.get(authorize_url()))
    for form in ({}, {"_gate_csrf": "x"}, {"_gate_csrf": stolen["_gate_csrf"]}):
        response = await decided(agent_site, browser, {**form, "decision": "allow"})
        assert response.status == 200  # the page again: nothing was granted
    assert len(await agent_site.sessions()) == 2
    assert await agent_site.broker.page(CONSENT, "", 10) == []
    assert (await decided(agent_site, browser, {**fields, "decision": "allow"})).status == 303


async def test_consent_without_a_session_leads_to_sign_in(agent_site: Site) -> None:
    response = await decided(agent_site, agent_site.browser(), {"decision": "allow"})
    assert response.location.startswith(f"{ORIGIN}/.gate/sign_in")


@pytest.mark.parametrize("decision", ["", "deny", "ALLOW", "allow "])
async def test_only_the_button_allows(agent_site: Site, decision: str) -> None:
    browser = await signed_in(agent_site)
    action, fields = form_of(await browser.get(authorize_url()))
    response = await browser.post(action, {**fields, "decision": decision})
    assert "error=access_denied" in response.headers["location"]


async def test_consent_is_remembered_for_user_client_resource_and_scopes(agent_site: Site) -> None:
    browser = agent_site.browser()
    await allow(agent_site, browser, scope="tickets:read")
    repeated = await browser.get(authorize_url(scope="tickets:read"))
    assert repeated.location.startswith(agent_site.idp.issuer)
    answer = answer_of((await browser.get(agent_site.idp.pick(repeated.location, "alice"))).location)
    assert "code" in answer
    for changed in ({"scope": "tickets:write"}, {"scope": ""}, {"resource": OTHER_RESOURCE}, {"client_id": SECRET_CLIENT}):
        assert (await browser.get(authorize_url(**{"scope": "tickets:read" if "resource" not in changed else "", **changed}))).status == 200
    assert (await (await signed_in(agent_site, "bob")).get(authorize_url(scope="tickets:read"))).status == 200


async def test_consent_to_a_published_client_is_never_skipped(agent_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(agent_site, monkeypatch, [])
    browser = agent_site.browser()
    for _ in range(2):
        page = await (browser if browser.cookies else await _sign_in(browser)).get(authorize_url(client_id=DOCUMENT_URL))
        assert page.status == 200
        assert "published.example.com" in page.text
        assert "Published &lt;b&gt;agent" in page.text
        action, fields = form_of(page)
        response = await browser.post(action, {**fields, "decision": "allow"})
        assert "code" in answer_of((await browser.get(agent_site.idp.pick(response.headers["location"], "alice"))).location)


async def _sign_in(browser: Browser) -> Browser:
    await browser.sign_in()
    return browser


async def test_documents_are_fetched_for_signed_in_users_only(agent_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    publish(agent_site, monkeypatch, fetched)
    browser = agent_site.browser()
    assert (await browser.get(authorize_url(client_id=DOCUMENT_URL))).location.startswith(f"{ORIGIN}/.gate/sign_in")
    assert fetched == []
    await browser.sign_in()
    assert (await browser.get(authorize_url(client_id=DOCUMENT_URL))).status == 200
    assert fetched == [DOCUMENT_URL]


async def test_unusable_document(agent_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(url: str) -> Any:
        raise ClientDocumentError("unusable document")

    monkeypatch.setattr(agent_site.service.agents.clients.documents, "get", refuse)
    page = await (await signed_in(agent_site)).get(authorize_url(client_id=DOCUMENT_URL, redirect_uri="https://evil.example/"))
    assert page.status == 400
    assert "unusable document" in page.text


async def test_other_account_at_the_provider_gets_nothing(agent_site: Site) -> None:
    browser = await signed_in(agent_site)
    action, fields = form_of(await browser.get(authorize_url()))
    response = await browser.post(action, {**fields, "decision": "allow"})
    page = await browser.get(agent_site.idp.pick(response.headers["location"], "bob"))
    assert page.status == 403
    assert "another user" in page.text
    assert len(await agent_site.sessions()) == 1


async def test_callback_of_an_authorization_is_used_once(agent_site: Site) -> None:
    browser = await signed_in(agent_site)
    action, fields = form_of(await browser.get(authorize_url()))
    response = await browser.post(action, {**fields, "decision": "allow"})
    callback = agent_site.idp.pick(response.headers["location"], "alice")
    assert "code" in answer_of((await browser.get(callback)).location)
    again = await browser.get(callback)
    assert again.headers.get("location") == "/.gate/"  # the attempt is gone: to the start page


async def test_browser_session_is_unchanged(agent_site: Site) -> None:
    browser = await signed_in(agent_site)
    (before,) = await agent_site.sessions()
    await allow(agent_site, browser)
    records = await agent_site.sessions()
    assert before in records
    agent = next(SessionRecord.from_record(record) for record in records if record.id != before.id)
    assert agent.agent is not None
    assert (agent.agent.client_id, agent.linked_session_ids) == (CLIENT, ())
    assert (await browser.get(f"{ORIGIN}/.gate/sessions")).status == 200


async def test_step_up_of_the_route_is_required(tmp_path: Path, idp: Any, django_pages: Any) -> None:
    routes = [{**SETTINGS["policy"][0], "acr_values": ["mfa"]}, *SETTINGS["policy"][1:]]
    site = Site(tmp_path, idp, django_pages, **{**SETTINGS, "policy": routes})
    browser = await signed_in(site)
    to_sign_in = (await browser.get(authorize_url())).location
    assert parse_qs(urlsplit(to_sign_in).query)["gate_acr_values"] == ["mfa"]
    await site.service.stop()
