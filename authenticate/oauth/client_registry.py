"""OAuth clients of one configuration: gate's command line, `oauth_clients`, with a metadata document, or registered dynamically."""

from collections.abc import Callable
from dataclasses import replace

from authenticate.oauth.client_documents import ClientDocuments, is_document_url
from authenticate.oauth.dynamic_registration import DynamicRegistration
from authenticate.oauth.oauth_client import COMMAND_LINE, ClientKeys, OAuthClient, Registration
from config.options import Options
from config.settings.oauth_settings import OAuthClientEntry
from databroker.agent_records import AgentAuthorization
from databroker.broker_client import BrokerClient
from databroker.records import SessionRecord


class OAuthClients:
    """Registry of clients."""

    def __init__(self, options: Options, broker: BrokerClient, clock: Callable[[], float]):
        self.documents = ClientDocuments(options, clock)
        self.dynamic = DynamicRegistration(options, broker, clock)
        command_line = replace(COMMAND_LINE, allows_devices=options.command_line_device_authorization)
        self._known = {entry.id: _from_entry(entry) for entry in options.oauth_clients} | {command_line.client_id: command_line}

    async def find(self, client_id: str, *, may_fetch: bool) -> OAuthClient | None:
        """Return a client for an authorization request, None if it is not known here.

        `may_fetch` allows gate to fetch the client's document.  It is True only for a signed-in user, so that other clients cannot make
        gate send requests.
        Raises ClientDocumentError or BrokerError.
        """
        if (client := self._known.get(client_id)) is not None:
            return client
        if not is_document_url(client_id):
            return await self.dynamic.find(client_id)
        return await self.documents.get(client_id) if may_fetch else self.documents.cached(client_id)

    def find_for_session(self, client_id: str, session: SessionRecord | None) -> OAuthClient | None:
        """Return a client for a token request.

        Other clients are known from the session of the code or token: gate verified them when the user consented.
        """
        if (client := self._known.get(client_id)) is not None:
            return client
        agent = session.agent if session is not None else None
        is_known = agent is not None and agent.client_id == client_id
        if self.dynamic.owns(client_id):
            return OAuthClient(client_id, agent.client_name, (), Registration.DYNAMIC) if agent is not None and is_known else None
        if not self.documents.allows(client_id):
            return None
        name = agent.client_name if agent is not None and is_known else client_id
        return OAuthClient(client_id, name, (), Registration.METADATA_DOCUMENT, keys=self._keys_for_session(client_id, agent))

    def _keys_for_session(self, client_id: str, agent: AgentAuthorization | None) -> ClientKeys | None:
        """Return the keys of a client with a metadata document, which must use them if it had some at the consent, or has now."""
        document = self.documents.cached(client_id)
        if document is not None and document.keys is not None:
            return document.keys
        return ClientKeys() if agent is not None and agent.uses_key else None

    def needs_document(self, client_id: str) -> bool:
        """Return whether the client's document must be fetched before its request can be validated."""
        return client_id not in self._known and is_document_url(client_id) and self.documents.cached(client_id) is None


def _from_entry(entry: OAuthClientEntry) -> OAuthClient:
    lifetime = entry.agent_session_expire.total_seconds() if entry.agent_session_expire is not None else None
    allows_devices = entry.device_authorization
    keys = ClientKeys(entry.keys) if entry.keys else None
    return OAuthClient(
        entry.id, entry.name, entry.redirect_uris, Registration.CONFIGURED, entry.secret, lifetime, allows_devices, keys=keys
    )
