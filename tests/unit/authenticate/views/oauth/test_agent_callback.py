"""Callback of an authorization: everything is checked again, and a deactivated user gets nothing."""

from typing import Any

import pytest

from authenticate.session import session_service
from authorize.protected_resources import ProtectedResources
from tests.support.agents import REDIRECT_URI, allow, answer_of, authorize_url, form_of
from tests.support.authenticate_site import Browser, Response, Site


async def callback(site: Site, browser: Browser, before: Any = None) -> Response:
    """Allow the client, call `before`, and return the response of the callback."""
    await browser.sign_in()
    action, fields = form_of(await browser.get(authorize_url()))
    response = await browser.post(action, {**fields, "decision": "allow"})
    url = site.idp.pick(response.headers["location"], "alice")
    if before is not None:
        before()
    return await browser.get(url)


async def test_code_is_issued(agent_site: Site) -> None:
    response = await callback(agent_site, agent_site.browser())
    assert response.location.startswith(f"{REDIRECT_URI}?code=")
    # The cookie of the attempt is gone, and the agent's session has none.
    assert all("max-age=0" in cookie.lower() for cookie in response.set_cookies)


async def test_resource_that_is_gone(agent_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    agents = agent_site.service.agents
    response = await callback(agent_site, agent_site.browser(), lambda: monkeypatch.setattr(agents, "resources", ProtectedResources([])))
    assert answer_of(response.location)["error"] == "invalid_target"
    assert len(await agent_site.sessions()) == 1


async def test_client_that_is_gone(agent_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = agent_site.service.agents.clients
    response = await callback(agent_site, agent_site.browser(), lambda: monkeypatch.setattr(clients, "_known", {}))
    assert response.status == 400
    assert "location" not in response.headers
    assert len(await agent_site.sessions()) == 1


async def test_deactivated_user(agent_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def is_deactivated(_: Any) -> bool:
        return True

    response = await callback(
        agent_site, agent_site.browser(), lambda: monkeypatch.setattr(agent_site.service, "is_deactivated", is_deactivated)
    )
    assert (response.status, "deactivated" in response.text) == (403, True)
    assert len(await agent_site.sessions()) == 1


async def test_sessions_of_an_account_are_bounded(agent_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_service, "MAX_SESSIONS_PER_ACCOUNT", 2)
    for _ in range(3):
        await allow(agent_site, agent_site.browser())
    assert len(await agent_site.sessions()) == 2
