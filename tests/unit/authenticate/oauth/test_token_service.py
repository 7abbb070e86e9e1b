"""Codes and tokens of agents: bound to client, redirect URI, challenge, resource and session; a credential that is used twice ends all."""

from pathlib import Path
from typing import Any

import pytest

from databroker.records import SESSION, SessionRecord
from foundation.crypto.agent_token import AgentTokenKind, RefreshTokens, hash_token, new_token
from foundation.errors import BrokerError
from tests.support.agents import (
    CLIENT,
    CLIENTS,
    LOOPBACK_URI,
    OTHER_RESOURCE,
    REDIRECT_URI,
    RESOURCE,
    REVOKE,
    ROUTES,
    SECRET,
    SECRET_CLIENT,
    TOKEN,
    allow,
    answer_of,
    authorized,
    post,
    refresh_form,
    token_form,
)
from tests.support.authenticate_site import Site


async def agent_sessions(site: Site) -> list[SessionRecord]:
    sessions = [SessionRecord.from_record(record) for record in await site.sessions()]
    return [session for session in sessions if session.agent is not None]


async def code_of(site: Site, **changed: str) -> str:
    return answer_of(await allow(site, site.browser(), **changed))["code"]


async def test_code_becomes_tokens_of_a_session_of_its_own(agent_site: Site) -> None:
    code = await code_of(agent_site)
    (pending,) = await agent_sessions(agent_site)
    assert pending.expires_at <= agent_site.clock() + 60
    response, tokens = await post(agent_site, TOKEN, token_form(code), **{"user-agent": "ticket-agent/1"})
    assert (response.status, response.headers["cache-control"]) == (200, "no-store")
    assert response.headers["access-control-allow-origin"] == "*"
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 3600, "tickets:read tickets:write")
    (session,) = await agent_sessions(agent_site)
    agent = session.agent
    assert agent is not None
    assert (agent.client_id, agent.client_name, agent.resource) == (CLIENT, "Ticket agent", RESOURCE)
    assert [token.hash for token in agent.access_tokens] == [hash_token(tokens["access_token"])]
    assert agent.refresh_token_hash == hash_token(tokens["refresh_token"])
    assert (session.user_agent, session.client_address) == ("ticket-agent/1", "192.0.2.7")
    assert session.expires_at == agent.expires_at > agent_site.clock() + 13 * 3600
    browser = next(SessionRecord.from_record(record) for record in await agent_site.sessions() if "agent" not in record.data)
    # Neither session depends on the other's tokens at the provider.
    assert session.refresh_token != browser.refresh_token
    stored = repr(await agent_site.broker.get(SESSION, session.id))
    assert not any(secret in stored for secret in (code, tokens["access_token"], tokens["refresh_token"]))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"redirect_uri": "https://client.example.com/other"}, "invalid_grant"),
        ({"redirect_uri": ""}, "invalid_grant"),
        ({"code_verifier": "w" * 64}, "invalid_grant"),
        ({"code_verifier": ""}, "invalid_request"),
        ({"code_verifier": "short"}, "invalid_request"),
        ({"resource": OTHER_RESOURCE}, "invalid_target"),
        ({"resource": "https://unknown.example.com"}, "invalid_target"),
        ({"resource": ""}, "invalid_target"),
        ({"client_id": SECRET_CLIENT, "client_secret": SECRET}, "invalid_grant"),
        ({"client_id": SECRET_CLIENT}, "invalid_client"),
        ({"client_id": "unknown"}, "invalid_client"),
        ({"client_id": ""}, "invalid_client"),
        ({"client_secret": "guess"}, "invalid_client"),
        ({"code": ""}, "invalid_request"),
        ({"code": "gate_ac_x"}, "invalid_grant"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, "invalid_client"),
        ({"grant_type": ""}, "unsupported_grant_type"),
        ({"grant_type": '"\\'}, "unsupported_grant_type"),
    ],
)
async def test_refused_redemptions(agent_site: Site, changed: dict[str, str], error: str) -> None:
    code = await code_of(agent_site)
    response, body = await post(agent_site, TOKEN, token_form(code, **changed))
    assert (response.status in (400, 401), body["error"], response.headers["cache-control"]) == (True, error, "no-store")
    (session,) = await agent_sessions(agent_site)
    assert session.agent is not None
    assert session.agent.access_tokens == ()
    # Nothing was half-issued, and a mistake of somebody else costs the client nothing.
    response, _ = await post(agent_site, TOKEN, token_form(code))
    assert response.status == 200


async def test_altered_code(agent_site: Site) -> None:
    code = await code_of(agent_site)
    altered = code[:-1] + ("A" if code[-1] != "A" else "B")
    (session,) = await agent_sessions(agent_site)
    for invalid in (altered, new_token(AgentTokenKind.CODE, session.id).token, code.replace("gate_ac_", "gate_at_")):
        _, body = await post(agent_site, TOKEN, token_form(invalid))
        assert body["error"] == "invalid_grant"
    assert len(await agent_sessions(agent_site)) == 1


async def test_code_expires_with_its_session(agent_site: Site) -> None:
    code = await code_of(agent_site)
    agent_site.clock.ahead += 61
    _, body = await post(agent_site, TOKEN, token_form(code))
    assert body["error"] == "invalid_grant"
    assert await agent_sessions(agent_site) == []


@pytest.mark.parametrize("is_refreshed", [False, True])
async def test_second_redemption_revokes_the_first(agent_site: Site, is_refreshed: bool) -> None:
    code = await code_of(agent_site)
    _, tokens = await post(agent_site, TOKEN, token_form(code))
    if is_refreshed:
        _, tokens = await post(agent_site, TOKEN, refresh_form(tokens["refresh_token"]))
    _, body = await post(agent_site, TOKEN, token_form(code))
    assert body["error"] == "invalid_grant"
    assert await agent_sessions(agent_site) == []
    _, body = await post(agent_site, TOKEN, refresh_form(tokens["refresh_token"]))
    assert body["error"] == "invalid_grant"


async def test_another_client_cannot_end_a_session_with_a_used_code(agent_site: Site) -> None:
    code = await code_of(agent_site)
    await post(agent_site, TOKEN, token_form(code))
    await post(agent_site, TOKEN, token_form(code, client_id=SECRET_CLIENT, client_secret=SECRET))
    assert len(await agent_sessions(agent_site)) == 1


async def test_refresh_rotates(agent_site: Site) -> None:
    first = await authorized(agent_site)
    response, second = await post(agent_site, TOKEN, refresh_form(first["refresh_token"], scope="tickets:read"))
    assert response.status == 200
    assert second["scope"] == "tickets:read"
    assert {first["access_token"], first["refresh_token"]}.isdisjoint(second.values())
    (session,) = await agent_sessions(agent_site)
    assert session.agent is not None
    assert [token.scopes for token in session.agent.access_tokens] == [("tickets:read",), ("tickets:read", "tickets:write")]
    _, third = await post(agent_site, TOKEN, refresh_form(second["refresh_token"]))
    assert third["scope"] == "tickets:read tickets:write"
    (session,) = await agent_sessions(agent_site)
    assert session.agent is not None
    assert [token.hash for token in session.agent.access_tokens] == [hash_token(each["access_token"]) for each in (third, second)]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"scope": "tickets:read admin"}, "invalid_scope"),
        ({"resource": OTHER_RESOURCE}, "invalid_target"),
        ({"refresh_token": ""}, "invalid_request"),
        ({"refresh_token": "gate_rt_x"}, "invalid_grant"),
        ({"client_id": SECRET_CLIENT, "client_secret": SECRET}, "invalid_grant"),
        ({"client_id": "unknown"}, "invalid_client"),
    ],
)
async def test_refused_refreshes(agent_site: Site, changed: dict[str, str], error: str) -> None:
    tokens = await authorized(agent_site)
    _, body = await post(agent_site, TOKEN, refresh_form(tokens["refresh_token"], **changed))
    assert body["error"] == error
    response, _ = await post(agent_site, TOKEN, refresh_form(tokens["refresh_token"]))
    assert response.status == 200


async def test_resource_is_optional_in_a_refresh(agent_site: Site) -> None:
    tokens = await authorized(agent_site)
    response, _ = await post(agent_site, TOKEN, refresh_form(tokens["refresh_token"], resource=""))
    assert response.status == 200


@pytest.mark.parametrize("rotations", [1, 3, 40])
async def test_reuse_of_a_refresh_token_revokes_the_family(agent_site: Site, rotations: int) -> None:
    first = tokens = await authorized(agent_site)
    for _ in range(rotations):
        _, tokens = await post(agent_site, TOKEN, refresh_form(tokens["refresh_token"]))
    _, body = await post(agent_site, TOKEN, refresh_form(first["refresh_token"]))
    assert body["error"] == "invalid_grant"
    assert await agent_sessions(agent_site) == []
    _, body = await post(agent_site, TOKEN, refresh_form(tokens["refresh_token"]))
    assert body["error"] == "invalid_grant"


async def test_forged_refresh_token_ends_nothing(agent_site: Site) -> None:
    await authorized(agent_site)
    (session,) = await agent_sessions(agent_site)
    genuine = RefreshTokens(agent_site.options).new(session.id).token
    forged = genuine[:-22] + "A" * 22
    _, body = await post(agent_site, TOKEN, refresh_form(forged))
    assert body["error"] == "invalid_grant"
    assert len(await agent_sessions(agent_site)) == 1


@pytest.mark.parametrize(("path", "field"), [(TOKEN, "refresh_token"), (REVOKE, "token")])
async def test_refresh_token_of_one_session_ends_no_other(agent_site: Site, path: str, field: str) -> None:
    """A client that names another session by a forged code, beside a refresh token that gate did issue."""
    await authorized(agent_site)
    (session,) = await agent_sessions(agent_site)
    genuine = RefreshTokens(agent_site.options).new("t" * 43).token
    form = {**refresh_form(genuine), field: genuine, "code": new_token(AgentTokenKind.CODE, session.id).token}
    await post(agent_site, path, form)
    assert len(await agent_sessions(agent_site)) == 1


async def test_tokens_end_with_the_session(agent_site: Site) -> None:
    """The client's `agent_session_expire` is 30 minutes: no access token is valid for longer."""
    code = await code_of(agent_site, client_id=SECRET_CLIENT)
    _, tokens = await post(agent_site, TOKEN, token_form(code, client_id=SECRET_CLIENT, client_secret=SECRET))
    assert 1790 <= tokens["expires_in"] <= 1800
    agent_site.clock.ahead += 1700
    form = refresh_form(tokens["refresh_token"], client_id=SECRET_CLIENT, client_secret=SECRET)
    _, renewed = await post(agent_site, TOKEN, form)
    assert renewed["expires_in"] <= 100
    agent_site.clock.ahead += 101
    _, body = await post(agent_site, TOKEN, {**form, "refresh_token": renewed["refresh_token"]})
    assert body["error"] == "invalid_grant"


async def test_loopback_port_of_the_request_counts(agent_site: Site) -> None:
    code = await code_of(agent_site, redirect_uri=LOOPBACK_URI)
    _, body = await post(agent_site, TOKEN, token_form(code, redirect_uri="http://127.0.0.1/callback"))
    assert body["error"] == "invalid_grant"
    response, _ = await post(agent_site, TOKEN, token_form(code, redirect_uri=LOOPBACK_URI))
    assert response.status == 200


@pytest.mark.parametrize("named", ["access_token", "refresh_token"])
@pytest.mark.parametrize("hint", ["access_token", "refresh_token", "unknown", ""])
async def test_revocation_ends_the_session(agent_site: Site, named: str, hint: str) -> None:
    tokens = await authorized(agent_site)
    form = {"client_id": CLIENT, "token": tokens[named], "token_type_hint": hint}
    response, _ = await post(agent_site, REVOKE, {name: value for name, value in form.items() if value})
    assert response.status == 200
    assert await agent_sessions(agent_site) == []


@pytest.mark.parametrize(
    ("changed", "status", "error"),
    [
        ({"token": "unknown"}, 200, None),
        ({"token": ""}, 400, "invalid_request"),
        ({"client_id": SECRET_CLIENT, "client_secret": SECRET}, 400, "invalid_grant"),
        ({"client_id": SECRET_CLIENT, "client_secret": SECRET[:-1]}, 401, "invalid_client"),
        ({"client_id": ""}, 401, "invalid_client"),
    ],
)
async def test_refused_revocations(agent_site: Site, changed: dict[str, str], status: int, error: str | None) -> None:
    tokens = await authorized(agent_site)
    form = {"client_id": CLIENT, "token": tokens["refresh_token"], **changed}
    response, body = await post(agent_site, REVOKE, {name: value for name, value in form.items() if value})
    assert (response.status, body.get("error")) == (status, error)
    assert len(await agent_sessions(agent_site)) == 1


async def test_concurrent_change_of_the_session_is_retried(agent_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The refresh worker may write the session between the look-up and the write of a redemption."""
    code = await code_of(agent_site)
    get, is_first = agent_site.broker.get, [True]

    async def get_then_change(type: str, id: str) -> Any:
        record = await get(type, id)
        if type == SESSION and record is not None and is_first.pop() if is_first else False:
            await agent_site.broker.put(type, id, {**record.data, "tokens_received_at": 7.0}, expires=record.expires)
        return record

    monkeypatch.setattr(agent_site.broker, "get", get_then_change)
    response, _ = await post(agent_site, TOKEN, token_form(code))
    assert response.status == 200
    (session,) = await agent_sessions(agent_site)
    assert session.tokens_received_at == 7.0
    assert session.agent is not None
    assert session.agent.refresh_token_hash


@pytest.mark.parametrize("failing", ["get", "put"])
async def test_store_is_unavailable(agent_site: Site, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    code = await code_of(agent_site)

    async def fail(*_: Any, **__: Any) -> Any:
        raise BrokerError("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(agent_site.broker, failing, fail)
        response, body = await post(agent_site, TOKEN, token_form(code))
    assert (response.status, body["error"], response.headers["retry-after"]) == (503, "temporarily_unavailable", "5")
    assert response.headers["access-control-allow-origin"] == "*"
    response, _ = await post(agent_site, TOKEN, token_form(code))
    assert response.status == 200


async def test_resource_that_is_no_longer_configured(agent_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = await authorized(agent_site)
    monkeypatch.setattr(agent_site.service.agents, "resources", type(agent_site.service.agents.resources)([]))
    _, body = await post(agent_site, TOKEN, refresh_form(tokens["refresh_token"], resource=""))
    assert body["error"] == "invalid_target"


async def test_sign_out_everywhere_ends_agents(agent_site: Site) -> None:
    browser = agent_site.browser()
    await authorized(agent_site, browser)
    session = next(SessionRecord.from_record(record) for record in await agent_site.sessions() if "agent" not in record.data)
    assert await agent_site.service.sessions.end_all_for(session) == 2
    assert await agent_site.sessions() == []


async def test_agent_session_is_no_session_of_the_browser(agent_site: Site) -> None:
    browser = agent_site.browser()
    await authorized(agent_site, browser, redirect_uri=REDIRECT_URI)
    (session,) = await agent_sessions(agent_site)
    service = agent_site.service
    cookie = service.sessions.set_cookies(session, service.host_port, agent_site.clock())[0].partition(";")[0]
    assert await service.sessions.find([cookie.encode()], service.host_port, agent_site.clock()) is None


@pytest.mark.parametrize(
    ("setting", "client", "route", "seconds"),
    [
        (None, None, None, 14 * 3600),
        ("2h", None, None, 7200),
        ("2h", "1h", None, 3600),
        ("2h", "720h", None, 720 * 3600),
        ("2h", None, "30m", 1800),
        ("2h", None, "720h", 720 * 3600),
        ("2h", "1h", "30m", 1800),
        ("2h", "30m", "1h", 1800),
    ],
)
async def test_shorter_lifetime_of_client_and_route_applies(
    tmp_path: Path, idp: Any, django_pages: Any, setting: str | None, client: str | None, route: str | None, seconds: int
) -> None:
    clients = [{**each, "agent_session_expire": client} if client else each for each in CLIENTS if each["id"] == CLIENT]
    mcp = {**ROUTES[0]["mcp"], "agent_session_expire": route} if route else ROUTES[0]["mcp"]
    settings = {"agent_session_expire": setting} if setting else {}
    site = Site(tmp_path, idp, django_pages, policy=[{**ROUTES[0], "mcp": mcp}], oauth_clients=clients, **settings)
    await authorized(site)
    (session,) = await agent_sessions(site)
    assert session.agent is not None
    assert session.agent.lifetime_seconds == seconds
    await site.service.stop()
