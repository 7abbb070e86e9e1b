"""API call: one validated request of a program, and the audit log in that program's name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from authenticate.access_requests.access_request_service import AccessRequestService, IdentityLookup
from authenticate.api.api_authenticator import ApiPrincipal
from config.options import Options
from databroker.audit_log import AuditLog, program_log
from databroker.broker_client import BrokerClient


@dataclass(frozen=True, slots=True)
class ApiContext:
    """What a call may use, and where it comes from."""

    options: Options
    broker: BrokerClient
    clock: Callable[[], float]
    desk: AccessRequestService
    identities: IdentityLookup
    client_address: str
    request_id: str


@dataclass(frozen=True, slots=True)
class ApiCall:
    """Call: who asks, and what of the request has been validated; `query` and `body` are of the operation's models."""

    context: ApiContext
    principal: ApiPrincipal
    id: str
    query: Any
    body: Any

    @property
    def audit(self) -> AuditLog:
        """Audit log in the name of the program."""
        return program_log(self.principal.account.name, self.context.client_address, self.context.clock, self.context.request_id)
