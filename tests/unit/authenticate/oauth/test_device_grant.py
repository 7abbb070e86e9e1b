"""Device authorization grant: what a device may request, and the answers to its polling (RFC 8628 3.1, 3.5)."""

import asyncio
from typing import Any

import pytest

from databroker.records import DEVICE_AUTHORIZATION, SESSION, SessionRecord
from tests.support.agents import (
    CLIENT,
    DEVICE_CLIENT,
    OTHER_RESOURCE,
    RESOURCE,
    REVOKE,
    SECRET,
    SECRET_CLIENT,
    START_DEVICE,
    TOKEN,
    allow_device,
    device_form,
    enter_code,
    form_of,
    poll_form,
    post,
    refresh_form,
    sign_in_browser,
    start_device,
    token_form,
)
from tests.support.authenticate_site import ORIGIN, Site


async def poll(site: Site, device: dict[str, Any], **changed: str) -> dict[str, Any]:
    _, body = await post(site, TOKEN, poll_form(device["device_code"], **changed))
    return body


async def agent_sessions(site: Site) -> list[SessionRecord]:
    sessions = [SessionRecord.from_record(record) for record in await site.sessions()]
    return [session for session in sessions if session.agent is not None]


async def test_response_of_the_device_endpoint(agent_site: Site) -> None:
    response, body = await post(agent_site, START_DEVICE, device_form())
    assert (response.status, response.headers["cache-control"], response.headers["access-control-allow-origin"]) == (200, "no-store", "*")
    assert set(body) == {"device_code", "user_code", "verification_uri", "verification_uri_complete", "expires_in", "interval"}
    assert (body["verification_uri"], body["expires_in"], body["interval"]) == (f"{ORIGIN}/.gate/device", 600, 5)
    assert body["verification_uri_complete"] == f"{ORIGIN}/.gate/device?user_code={body['user_code']}"
    (record,) = await agent_site.broker.page(DEVICE_AUTHORIZATION, "", 10)
    assert not any(body[name] in repr((record.id, record.data)) for name in ("device_code", "user_code"))
    assert record.data["client_address"] == "192.0.2.7"


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"client_id": ""}, "invalid_client"),
        ({"client_id": "unknown"}, "invalid_client"),
        ({"client_id": "https://published.example.com/client.json"}, "unauthorized_client"),
        ({"client_id": CLIENT}, "unauthorized_client"),
        ({"client_id": SECRET_CLIENT}, "invalid_client"),
        ({"client_id": SECRET_CLIENT, "client_secret": SECRET}, "unauthorized_client"),
        ({"resource": ""}, "invalid_target"),
        ({"resource": "https://app.example.com"}, "invalid_target"),
        ({"scope": "admin"}, "invalid_scope"),
        ({"resource": OTHER_RESOURCE}, "invalid_scope"),
    ],
)
async def test_refused_requests(agent_site: Site, changed: dict[str, str], error: str) -> None:
    response, body = await post(agent_site, START_DEVICE, device_form(**changed))
    assert (response.status in (400, 401), body["error"]) == (True, error)
    assert await agent_site.broker.page(DEVICE_AUTHORIZATION, "", 10) == []


async def test_tokens_after_the_approval(agent_site: Site) -> None:
    device, browser = await start_device(agent_site), await sign_in_browser(agent_site)
    assert (await poll(agent_site, device))["error"] == "authorization_pending"
    assert (await allow_device(agent_site, browser, device["user_code"])).status == 200
    tokens = await poll(agent_site, device)
    assert (tokens["token_type"], tokens["expires_in"], tokens["scope"]) == ("Bearer", 3600, "tickets:read")
    (session,) = await agent_sessions(agent_site)
    agent = session.agent
    assert agent is not None
    assert (agent.client_id, agent.client_name, agent.resource) == (DEVICE_CLIENT, "Build box", RESOURCE)
    assert session.expires_at == agent.expires_at > agent_site.clock() + 13 * 3600
    _, renewed = await post(agent_site, TOKEN, refresh_form(tokens["refresh_token"], client_id=DEVICE_CLIENT))
    response, _ = await post(agent_site, REVOKE, {"client_id": DEVICE_CLIENT, "token": renewed["access_token"]})
    assert (response.status, await agent_sessions(agent_site)) == (200, [])


async def test_device_that_polls_too_often_slows_down(agent_site: Site) -> None:
    device = await start_device(agent_site)
    answers = []
    for seconds in (0, 5, 1, 6, 10, 14, 15):
        agent_site.clock.ahead += seconds
        answers.append((await poll(agent_site, device))["error"])
    pending, slow = "authorization_pending", "slow_down"
    assert answers == [pending, pending, slow, slow, slow, slow, slow]
    agent_site.clock.ahead += 40
    assert (await poll(agent_site, device))["error"] == pending


async def test_denial(agent_site: Site) -> None:
    device, browser = await start_device(agent_site), await sign_in_browser(agent_site)
    action, fields = form_of(await enter_code(browser, device["user_code"]))
    page = await browser.post(action, {**fields, "decision": "deny"})
    assert (page.status, "not connected" in page.text) == (200, True)
    assert [(await poll(agent_site, device))["error"] for _ in range(2)] == ["access_denied"] * 2
    assert await agent_sessions(agent_site) == []
    assert "not valid" in (await enter_code(browser, device["user_code"])).text


async def test_codes_expire(agent_site: Site) -> None:
    device, browser = await start_device(agent_site), await sign_in_browser(agent_site)
    agent_site.clock.ahead += 600
    assert (await poll(agent_site, device))["error"] == "expired_token"
    assert "not valid" in (await enter_code(browser, device["user_code"])).text
    agent_site.clock.ahead += 601
    assert (await poll(agent_site, device))["error"] == "invalid_grant"


async def test_approval_expires_with_the_codes(agent_site: Site) -> None:
    device = await start_device(agent_site)
    await allow_device(agent_site, await sign_in_browser(agent_site), device["user_code"])
    agent_site.clock.ahead += 600
    assert (await poll(agent_site, device))["error"] == "expired_token"
    assert await agent_sessions(agent_site) == []


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"device_code": ""}, "invalid_request"),
        ({"device_code": "gate_dc_x"}, "invalid_grant"),
        ({"client_id": CLIENT}, "unauthorized_client"),
        ({"client_id": "unknown"}, "invalid_client"),
        ({"client_id": ""}, "invalid_client"),
        ({"client_secret": "guess"}, "invalid_client"),
        ({"resource": OTHER_RESOURCE}, "invalid_target"),
        ({"resource": "https://unknown.example.com"}, "invalid_target"),
    ],
)
async def test_refused_polls(agent_site: Site, changed: dict[str, str], error: str) -> None:
    device = await start_device(agent_site)
    await allow_device(agent_site, await sign_in_browser(agent_site), device["user_code"])
    assert (await poll(agent_site, device, **changed))["error"] == error
    assert "access_token" in await poll(agent_site, device), "a mistake costs the device nothing"


async def test_altered_device_code(agent_site: Site) -> None:
    device = await start_device(agent_site)
    await allow_device(agent_site, await sign_in_browser(agent_site), device["user_code"])
    code = device["device_code"]
    altered = code[:-1] + ("A" if code[-1] != "A" else "B")
    for invalid in (altered, code.replace("gate_dc_", "gate_ac_")):
        assert (await poll(agent_site, {"device_code": invalid}))["error"] == "invalid_grant"
    (session,) = await agent_sessions(agent_site)
    guessed = {"device_code": f"gate_dc_{session.id}.{code.rpartition('.')[2]}"}
    assert (await poll(agent_site, guessed))["error"] == "invalid_grant"


async def test_device_code_is_no_authorization_code(agent_site: Site) -> None:
    device = await start_device(agent_site)
    await allow_device(agent_site, await sign_in_browser(agent_site), device["user_code"])
    for named in ({}, {"redirect_uri": ""}, {"redirect_uri": "", "code_verifier": ""}):
        _, body = await post(agent_site, TOKEN, token_form(device["device_code"], client_id=DEVICE_CLIENT, **named))
        assert body["error"] in ("invalid_grant", "invalid_request")
    assert "access_token" in await poll(agent_site, device)


async def test_second_redemption_revokes_the_first(agent_site: Site) -> None:
    device = await start_device(agent_site)
    await allow_device(agent_site, await sign_in_browser(agent_site), device["user_code"])
    tokens = await poll(agent_site, device)
    assert (await poll(agent_site, device))["error"] == "invalid_grant"
    assert await agent_sessions(agent_site) == []
    _, body = await post(agent_site, TOKEN, refresh_form(tokens["refresh_token"], client_id=DEVICE_CLIENT))
    assert body["error"] == "invalid_grant"
    assert (await poll(agent_site, device))["error"] == "invalid_grant"


async def test_concurrent_polls_get_one_pair_of_tokens(agent_site: Site) -> None:
    device = await start_device(agent_site)
    await allow_device(agent_site, await sign_in_browser(agent_site), device["user_code"])
    answers = await asyncio.gather(*(poll(agent_site, device) for _ in range(4)))
    assert sum("access_token" in answer for answer in answers) <= 1


async def test_approval_at_the_same_moment_as_a_poll(agent_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll that has read the record before the approval must not write over it."""
    device, browser = await start_device(agent_site), await sign_in_browser(agent_site)
    get, is_first = agent_site.broker.get, [True]

    async def get_then_approve(type: str, id: str) -> Any:
        record = await get(type, id)
        if type == DEVICE_AUTHORIZATION and is_first and is_first.pop():
            await allow_device(agent_site, browser, device["user_code"])
        return record

    monkeypatch.setattr(agent_site.broker, "get", get_then_approve)
    assert "access_token" in await poll(agent_site, device)


async def test_session_that_ended_before_the_redemption(agent_site: Site) -> None:
    device = await start_device(agent_site)
    await allow_device(agent_site, await sign_in_browser(agent_site), device["user_code"])
    (session,) = await agent_sessions(agent_site)
    await agent_site.broker.delete(SESSION, session.id)
    assert (await poll(agent_site, device))["error"] == "invalid_grant"
