"""Provider clients: one per configured provider, so that secrets and tokens of one are never sent to another."""

from collections.abc import Callable, Iterator, Mapping

from authenticate.provider.issuer import matches_issuer
from authenticate.provider.provider_client import ProviderClient
from authenticate.provider.provider_errors import SubjectMismatch
from config.options import Options
from config.provider_config import ProviderConfig
from databroker.records import SessionRecord
from databroker.session_reader import is_session_issuer


# enforcement-point: Sign-in and sign-out: Provider client of a session
class ProviderClients:
    """Clients by provider id, created on first use, so that many providers do not slow down the start."""

    def __init__(self, options: Options, clock: Callable[[], float]):
        self.configured: Mapping[str, ProviderConfig] = options.providers
        self._options, self._clock = options, clock
        self._clients: dict[str, ProviderClient] = {}

    def __repr__(self) -> str:
        return f"<ProviderClients {len(self._clients)} of {len(self.configured)}>"

    @property
    def active(self) -> tuple[ProviderClient, ...]:
        return tuple(self._clients.values())

    def get(self, id: str) -> ProviderClient | None:
        """Return the client of this provider, None if it is not configured."""
        if id not in self._clients and (configured := self.configured.get(id)) is not None:
            self._clients[id] = ProviderClient(self._options, configured, self._clock)
        return self._clients.get(id)

    def for_issuer(self, issuer: str) -> ProviderClient | None:
        """Return the client of the provider with this issuer, None if there is none."""
        return next((self.get(id) for id, provider in self.configured.items() if matches_issuer(provider.issuer, issuer)), None)

    def for_session(self, session: SessionRecord) -> ProviderClient:
        """Return the client of the provider that issued a session.

        Raises SubjectMismatch if it is no longer configured: the session's tokens are then sent to no provider.
        """
        client = self.get(session.provider)
        if client is None or not is_session_issuer(client.configured, session):
            raise SubjectMismatch("the provider of the session is no longer configured")
        return client

    def for_background_work(self, session: SessionRecord) -> ProviderClient:
        """Return the client for a session as `for_session` does, with the connections for background work."""
        return self.for_session(session).for_background_work()

    def all(self) -> Iterator[ProviderClient]:
        yield from (client for id in self.configured if (client := self.get(id)) is not None)

    async def close(self) -> None:
        for client in self.active:
            await client.close()
