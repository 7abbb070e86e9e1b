"""API call: one validated request of a service account, with what its handler may use."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from authenticate.access_requests.access_request_service import AccessRequestService, IdentityLookup
from authenticate.api.api_authenticator import ApiPrincipal
from authenticate.upstream_oauth.connection_service import UpstreamConnections
from config.options import Options
from databroker.audit_log import AuditLog, service_account_log
from databroker.broker_client import BrokerClient


@dataclass(frozen=True, slots=True)
class ApiContext:
    """Services that a handler may use, and the client address and request id of the call."""

    options: Options
    broker: BrokerClient
    clock: Callable[[], float]
    access_requests: AccessRequestService
    identities: IdentityLookup
    connections: UpstreamConnections
    client_address: str
    request_id: str


@dataclass(frozen=True, slots=True)
class ApiCall:
    """Validated call.  `query` and `body` are instances of the operation's models."""

    context: ApiContext
    principal: ApiPrincipal
    id: str
    query: Any
    body: Any

    @property
    def audit(self) -> AuditLog:
        """Audit log with the service account as actor."""
        return service_account_log(self.principal.account.name, self.context.client_address, self.context.clock, self.context.request_id)
