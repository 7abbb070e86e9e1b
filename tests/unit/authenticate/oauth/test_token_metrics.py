"""Metric of token requests: each request counts once, under a bounded set of labels."""

from typing import Any

import pytest

from foundation.errors import BrokerError
from foundation.telemetry import metrics
from tests.support.agents import CLIENT, REVOKE, START_DEVICE, TOKEN, authorized, device_form, poll_form, post, refresh_form
from tests.support.authenticate_site import Site

Counts = dict[tuple[str, str], float]


def counts() -> Counts:
    samples = [sample for family in metrics.oauth_tokens.collect() for sample in family.samples if sample.name.endswith("_total")]
    return {(sample.labels["grant_type"], sample.labels["outcome"]): sample.value for sample in samples}


@pytest.fixture(autouse=True)
def _nothing_counted() -> None:
    metrics.oauth_tokens.clear()


async def test_life_of_a_session(agent_site: Site) -> None:
    tokens = await authorized(agent_site)
    await post(agent_site, TOKEN, refresh_form(tokens["refresh_token"]))
    await post(agent_site, TOKEN, refresh_form(tokens["refresh_token"]))
    await post(agent_site, REVOKE, {"client_id": CLIENT, "token": tokens["access_token"]})
    assert counts() == {
        ("authorization_code", "issued"): 1,
        ("refresh_token", "issued"): 1,
        ("refresh_token", "revoked"): 1,
        ("revocation", "revoked"): 1,
    }


async def test_refusals(agent_site: Site) -> None:
    _, device = await post(agent_site, START_DEVICE, device_form())
    for form in (
        poll_form(device["device_code"]),
        poll_form(device["device_code"]),
        poll_form("gate_dc_x"),
        {"grant_type": "client_credentials", "client_id": "bot"},
        {"grant_type": "x" * 1000},
        {"grant_type": "revocation"},
        {"client_id": CLIENT},
    ):
        await post(agent_site, TOKEN, form)
    await post(agent_site, REVOKE, {"client_id": "unknown", "token": "x"})
    assert counts() == {
        ("device_code", "pending"): 2,
        ("device_code", "refused"): 1,
        ("client_credentials", "refused"): 1,
        ("other", "refused"): 2,
        ("revocation", "refused"): 2,
    }


async def test_store_is_unavailable(agent_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = await authorized(agent_site)

    async def fail(*_: Any, **__: Any) -> Any:
        raise BrokerError("the store is away")

    monkeypatch.setattr(agent_site.broker, "get", fail)
    await post(agent_site, TOKEN, refresh_form(tokens["refresh_token"]))
    assert counts()["refresh_token", "unavailable"] == 1
