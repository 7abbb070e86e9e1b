"""Provider watch: whether the identity providers can be used, as far as somebody has needed them; each is in trouble for itself alone."""

import asyncio

import structlog

from authenticate.provider.client_registry import ProviderClients
from authenticate.provider.provider_client import ProviderClient
from foundation.errors import ProviderError
from foundation.readiness import ComponentStatus, degraded, format_utc

log = structlog.get_logger(__name__)

LOOK_EVERY = 30.0  # seconds until a provider in trouble is looked at again
PART = "provider"


class ProviderWatch:
    """Watch over the providers of one configuration."""

    def __init__(self, clients: ProviderClients):
        self._clients = clients
        self._is_sole = len(clients.configured) == 1
        self._warned: set[str] = set()

    async def run(self) -> None:
        """Read the discovery document of a sole provider once: the operator hears of a wrong setting now, and not from the first person
        who signs in.

        And of any while something is wrong there, so that it is known when that is over.  Several are asked when they are needed.
        """
        while True:
            await asyncio.gather(*map(self._look, tuple(self._clients.all()) if self._is_sole else self._clients.made))
            await asyncio.sleep(LOOK_EVERY)

    async def _look(self, client: ProviderClient) -> None:
        health, id = client.health, client.provider.id
        began = health.changed_at if health.error else None
        own = client.for_our_own_work()
        try:
            if health.error or (self._is_sole and not health.changed_at):
                await own.provider.discovery(own.http)
                health.mark_up()
            self._warned.discard(id)
        except ProviderError as error:
            health.mark_down(str(error), began)  # an answer that can't be used came between
            if id not in self._warned:
                log.warning("identity provider unavailable", provider=id, reason=str(error))
            self._warned.add(id)

    def readiness(self) -> ComponentStatus:
        """Readiness of the providers, as far as they were asked; without them, who is signed in goes on."""
        troubled = [client for client in self._clients.made if client.health.error]
        if troubled:
            told = (f"{self._who(c.provider.id)} since {format_utc(c.health.changed_at)}: {c.health.error}" for c in troubled)
            return degraded(PART, "; ".join(told))
        since = max((client.health.changed_at for client in self._clients.made), default=0.0)
        return ComponentStatus(PART, reason=f"responded at {format_utc(since)}" if since else "not contacted yet")

    def _who(self, id: str) -> str:
        return "sign-in is unavailable" if self._is_sole else f"sign-in at {id} is unavailable"
