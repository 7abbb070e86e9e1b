"""Provider health: whether the identity providers that were used so far are available, each independently."""

import asyncio

import structlog

from authenticate.provider.client_registry import ProviderClients
from authenticate.provider.provider_client import ProviderClient
from foundation.errors import ProviderError
from foundation.readiness import ComponentStatus, degraded, format_utc

log = structlog.get_logger(__name__)

POLL_INTERVAL = 30.0  # seconds until an unavailable provider is probed again
PART = "provider"


class ProviderHealth:
    """Health of the providers of one configuration."""

    def __init__(self, clients: ProviderClients):
        self._clients = clients
        self._is_only_provider = len(clients.configured) == 1
        self._warned: set[str] = set()

    async def run(self) -> None:
        """Probe the providers.

        The discovery document of the only provider is read once at the start, so that a wrong setting is reported before the first
        sign-in. With several providers, each is first contacted when it is needed. A failing provider is probed until it recovers.
        """
        while True:
            await asyncio.gather(*map(self._probe, tuple(self._clients.all()) if self._is_only_provider else self._clients.active))
            await asyncio.sleep(POLL_INTERVAL)

    async def _probe(self, client: ProviderClient) -> None:
        health, id = client.health, client.provider.id
        failing_since = health.changed_at if health.error else None
        background_client = client.for_background_work()
        try:
            if health.error or (self._is_only_provider and not health.changed_at):
                await background_client.provider.discovery(background_client.http)
                health.mark_up()
            self._warned.discard(id)
        except ProviderError as error:
            health.mark_down(str(error), failing_since)  # the failure continues, because an invalid response is no recovery
            if id not in self._warned:
                log.warning("identity provider unavailable", provider=id, reason=str(error))
            self._warned.add(id)

    def readiness(self) -> ComponentStatus:
        """Return the readiness of the providers that were contacted. Sessions continue while a provider is unavailable."""
        troubled = [client for client in self._clients.active if client.health.error]
        if troubled:
            reasons = (f"{self._impact(c.provider.id)} since {format_utc(c.health.changed_at)}: {c.health.error}" for c in troubled)
            return degraded(PART, "; ".join(reasons))
        since = max((client.health.changed_at for client in self._clients.active), default=0.0)
        return ComponentStatus(PART, reason=f"responded at {format_utc(since)}" if since else "not contacted yet")

    def _impact(self, id: str) -> str:
        return "sign-in is unavailable" if self._is_only_provider else f"sign-in at {id} is unavailable"
