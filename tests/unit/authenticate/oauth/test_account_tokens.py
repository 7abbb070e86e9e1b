"""Client credentials of service accounts: one resource, an hour at most, and only with the secret that counts now (RFC 6749 4.4)."""

import base64
from typing import Any

import pytest

from authenticate.oauth import account_tokens
from databroker.audit_log import AuditAction
from databroker.models import AuditEntry
from databroker.records import SERVICE_ACCOUNT_TOKEN
from databroker.service_account_store import ServiceAccounts
from foundation.errors import BrokerError
from tests.support.agents import CLIENT, OTHER_RESOURCE, RESOURCE, REVOKE, SECRET, SECRET_CLIENT, TOKEN, post
from tests.support.authenticate_site import Site


def accounts(site: Site) -> ServiceAccounts:
    return ServiceAccounts(site.broker, site.clock)


async def created(site: Site, name: str = "deploy-bot", lifetime: float | None = 86400.0) -> str:
    return await accounts(site).create(name, ["deployers"], lifetime, "admin")


def form(secret: str, **changed: str) -> dict[str, str]:
    named = {"grant_type": "client_credentials", "client_id": "deploy-bot", "client_secret": secret, "resource": RESOURCE, **changed}
    return {name: value for name, value in named.items() if value}


async def stored(site: Site) -> list[Any]:
    return await site.broker.page(SERVICE_ACCOUNT_TOKEN, "", 10)


async def test_account_gets_a_token_for_one_resource(agent_site: Site) -> None:
    secret = await created(agent_site)
    response, body = await post(agent_site, TOKEN, form(secret, scope="tickets:read"))
    assert (response.status, response.headers["cache-control"]) == (200, "no-store")
    assert set(body) == {"access_token", "token_type", "expires_in", "scope"}, "no refresh token (RFC 6749 4.4.3)"
    assert (body["token_type"], body["expires_in"], body["scope"]) == ("Bearer", 3600, "tickets:read")
    (record,) = await stored(agent_site)
    assert (record.data["account"], record.data["resource"], record.data["scopes"]) == ("deploy-bot", RESOURCE, ["tickets:read"])
    assert not any(value in repr((record.id, record.data)) for value in (secret, body["access_token"]))
    assert record.expires <= agent_site.clock() + 3600
    await agent_site.service.audit_writer.stop()
    (entry,) = [entry async for entry in AuditEntry.objects.filter(action=AuditAction.ISSUE_TOKEN)]
    assert (entry.actor_id, entry.object_id, entry.client_address) == ("service_account/deploy-bot", RESOURCE, "192.0.2.7")


@pytest.mark.parametrize("client_id", ["deploy-bot", "service_account/deploy-bot", "service_account%2Fdeploy-bot"])
async def test_basic_credentials(agent_site: Site, client_id: str) -> None:
    secret = await created(agent_site)
    basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    response, body = await post(agent_site, TOKEN, form("", client_id=""), authorization=f"Basic {basic}")
    assert (response.status, body["scope"]) == (200, "tickets:read tickets:write"), "all scopes of the resource"


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"client_id": ""}, "invalid_client"),
        ({"client_id": "other-bot"}, "invalid_client"),
        ({"client_id": "service_account/other-bot"}, "invalid_client"),
        ({"client_secret": ""}, "invalid_client"),
        ({"client_secret": "guess"}, "invalid_client"),
        ({"client_id": SECRET_CLIENT, "client_secret": SECRET}, "invalid_client"),
        ({"client_id": CLIENT, "client_secret": ""}, "invalid_client"),
        ({"resource": ""}, "invalid_target"),
        ({"resource": "https://app.example.com"}, "invalid_target"),
        ({"scope": "admin"}, "invalid_scope"),
        ({"resource": OTHER_RESOURCE, "scope": "tickets:read"}, "invalid_scope"),
    ],
)
async def test_refused_requests(agent_site: Site, changed: dict[str, str], error: str) -> None:
    secret = await created(agent_site)
    await created(agent_site, "other-bot")
    response, body = await post(agent_site, TOKEN, {**form(secret), **changed} if all(changed.values()) else form(secret, **changed))
    assert (response.status in (400, 401), body["error"]) == (True, error)
    assert await stored(agent_site) == []


@pytest.mark.parametrize("grant_type", ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code", "password"])
async def test_secret_of_an_account_is_refused_for_other_grants(agent_site: Site, grant_type: str) -> None:
    secret = await created(agent_site)
    credentials = {"code": "x", "refresh_token": "x", "device_code": "x"}
    response, body = await post(agent_site, TOKEN, {**form(secret), "grant_type": grant_type, **credentials})
    assert (response.status in (400, 401), "access_token" in body) == (True, False)


async def test_secret_that_no_longer_counts(agent_site: Site) -> None:
    first = await created(agent_site)
    second = await accounts(agent_site).rotate("deploy-bot", overlap=60.0)
    for secret in (first, second):
        assert (await post(agent_site, TOKEN, form(secret)))[0].status == 200
    agent_site.clock.ahead += 61
    assert (await post(agent_site, TOKEN, form(first)))[1]["error"] == "invalid_client"
    assert (await post(agent_site, TOKEN, form(second)))[0].status == 200
    await accounts(agent_site).revoke("deploy-bot")
    assert (await post(agent_site, TOKEN, form(second)))[1]["error"] == "invalid_client"


async def test_token_ends_with_the_account(agent_site: Site) -> None:
    secret = await created(agent_site, lifetime=600.0)
    _, body = await post(agent_site, TOKEN, form(secret))
    assert 590 <= body["expires_in"] <= 600
    agent_site.clock.ahead += 601
    assert (await post(agent_site, TOKEN, form(secret)))[1]["error"] == "invalid_client"


async def test_number_of_tokens_is_limited(agent_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, other = await created(agent_site), await created(agent_site, "other-bot")
    for _ in range(account_tokens.MAX_ISSUED):
        agent_site.service.agents._account_tokens._issued.record("deploy-bot")
    response, body = await post(agent_site, TOKEN, form(secret))
    assert (response.status, body["error"]) == (503, "temporarily_unavailable")
    assert (await post(agent_site, TOKEN, form(other, client_id="other-bot")))[0].status == 200


async def test_revocation_by_the_account_alone(agent_site: Site) -> None:
    secret, other = await created(agent_site), await created(agent_site, "other-bot")
    _, body = await post(agent_site, TOKEN, form(secret))
    token = {"token": body["access_token"], "token_type_hint": "access_token"}
    for client_id, sent in (("other-bot", other), ("deploy-bot", "guess"), (CLIENT, "")):
        response, _ = await post(agent_site, REVOKE, {"client_id": client_id, "client_secret": sent, **token})
        assert response.status in (400, 401)
        assert len(await stored(agent_site)) == 1
    altered = token["token"][:-1] + ("A" if token["token"][-1] != "A" else "B")
    response, _ = await post(agent_site, REVOKE, {"client_id": "deploy-bot", "client_secret": secret, "token": altered})
    assert (response.status, len(await stored(agent_site))) == (200, 1)
    response, _ = await post(agent_site, REVOKE, {"client_id": "deploy-bot", "client_secret": secret, **token})
    assert (response.status, await stored(agent_site)) == (200, [])


@pytest.mark.parametrize("failing", ["get", "put"])
async def test_store_is_unavailable(agent_site: Site, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    secret = await created(agent_site)

    async def fail(*_: Any, **__: Any) -> Any:
        raise BrokerError("the store is away")

    with monkeypatch.context() as patched:
        patched.setattr(agent_site.broker, failing, fail)
        response, body = await post(agent_site, TOKEN, form(secret))
    assert (response.status, body["error"]) == (503, "temporarily_unavailable")
    assert await stored(agent_site) == []
