"""Provider health: gate checks providers where an operator needs an alert, and the state of each is independent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from authenticate import provider_health
from authenticate.provider.client_registry import ProviderClients
from authenticate.provider_health import ProviderHealth
from foundation.errors import ProviderError
from foundation.readiness import ReadinessState
from tests.support.eventually import eventually
from tests.support.fake_idp import DISCOVERY, Answer, FakeIdP
from tests.support.options import make_options
from tests.support.providers import a_provider

AWAY = Answer(status=500)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_health, "POLL_INTERVAL", 0.005)


@pytest.fixture
def sole(tmp_path: Path, idp: FakeIdP) -> ProviderClients:
    return ProviderClients(make_options(tmp_path, idp_provider_url=idp.issuer), lambda: 1000.0)


@asynccontextmanager
async def running(watch: ProviderHealth, clients: ProviderClients) -> AsyncIterator[None]:
    task = asyncio.create_task(watch.run())
    yield
    task.cancel()
    await asyncio.wait({task})
    await clients.close()


async def test_sole_provider_is_chosen_without_question(idp: FakeIdP, sole: ProviderClients) -> None:
    watch = ProviderHealth(sole)
    assert watch.readiness().reason == "not contacted yet"
    async with running(watch, sole):
        await eventually(lambda: watch.readiness().reason.startswith("responded at"))
    assert [request.path for request in idp.requests] == [DISCOVERY]


async def test_outage_is_logged_once_and_recovery_detected(idp: FakeIdP, sole: ProviderClients) -> None:
    idp.bend.answers[DISCOVERY] = AWAY
    watch = ProviderHealth(sole)
    with capture_logs() as logged:
        async with running(watch, sole):
            await eventually(lambda: len(idp.requests) > 3)
            assert watch.readiness().state is ReadinessState.DEGRADED
            assert watch.readiness().reason.startswith("sign-in is unavailable since")
            del idp.bend.answers[DISCOVERY]
            await eventually(lambda: watch.readiness().state is ReadinessState.OK)
    events = [entry["event"] for entry in logged if "unavailable" in entry["event"]]
    assert events == ["identity provider unavailable"]


async def test_providers_are_contacted_on_demand_and_outages_are_independent(idp: FakeIdP, tmp_path: Path) -> None:
    clients = ProviderClients(make_options(tmp_path), lambda: 1000.0)
    clients.configured = {id: a_provider(id, url=idp.issuer) for id in ("corp", "partner")}
    watch = ProviderHealth(clients)
    async with running(watch, clients):
        await asyncio.sleep(0)
        assert clients.active == ()
        assert watch.readiness().reason == "not contacted yet"
        corp, partner = (client for client in clients.all())
        await corp.discovery()
        idp.bend.answers[DISCOVERY] = AWAY
        with pytest.raises(ProviderError):
            await partner.discovery()
        await eventually(lambda: watch.readiness().reason.startswith("sign-in at partner is unavailable since"))
        assert "corp" not in watch.readiness().reason
        request_count = len(idp.requests)
        await eventually(lambda: len(idp.requests) > request_count)
        del idp.bend.answers[DISCOVERY]
        await eventually(lambda: watch.readiness().state is ReadinessState.OK)
