"""Provider clients: one for each configured provider, so that what is one's is never sent to another."""

from collections.abc import Callable, Iterator, Mapping

from authenticate.provider.issuer import matches_issuer
from authenticate.provider.provider_client import ProviderClient
from authenticate.provider.provider_errors import AnotherPerson
from config.options import Options
from config.provider_config import ProviderConfig
from databroker.records import SessionRecord
from databroker.session_reader import vouches


# enforcement-point: Sign-in and sign-out: Provider client of a session
class ProviderClients:
    """Clients by the ids of their providers, each made when somebody needs it: fifty cost a start nothing."""

    def __init__(self, options: Options, clock: Callable[[], float]):
        self.configured: Mapping[str, ProviderConfig] = options.providers
        self._options, self._clock = options, clock
        self._made: dict[str, ProviderClient] = {}

    def __repr__(self) -> str:
        return f"<ProviderClients {len(self._made)} of {len(self.configured)}>"

    @property
    def made(self) -> tuple[ProviderClient, ...]:
        return tuple(self._made.values())

    def of(self, id: str) -> ProviderClient | None:
        """The client of this provider; None where it is not configured."""
        if id not in self._made and (configured := self.configured.get(id)) is not None:
            self._made[id] = ProviderClient(self._options, configured, self._clock)
        return self._made.get(id)

    def of_issuer(self, issuer: str) -> ProviderClient | None:
        """The client of the one provider that calls itself so; None where none is configured."""
        return next((self.of(id) for id, provider in self.configured.items() if matches_issuer(provider.issuer, issuer)), None)

    def of_session(self, session: SessionRecord) -> ProviderClient:
        """The client of the provider that vouched for a session; AnotherPerson: its tokens are nobody's to see."""
        client = self.of(session.provider)
        if client is None or not vouches(client.configured, session):
            raise AnotherPerson("the provider of the session is no longer configured")
        return client

    def for_our_own_work(self, session: SessionRecord) -> ProviderClient:
        """As `of_session`, with the connections that no browser waits for."""
        return self.of_session(session).for_our_own_work()

    def all(self) -> Iterator[ProviderClient]:
        yield from (client for id in self.configured if (client := self.of(id)) is not None)

    async def close(self) -> None:
        for client in self.made:
            await client.close()
