"""Which parts of gate does this process have?"""

from dataclasses import dataclass
from typing import TypeVar

from authenticate.bearer_tokens import BearerTokens
from authenticate.directory.service import DirectoryService
from authenticate.service import AuthenticateService
from authorize.client import Authorizer
from config.options import Options
from databroker.client import BrokerClient
from foundation.crypto.signing_key import SigningKey
from foundation.telemetry.tracing import tracer
from proxy.listener.state import ListenerState
from proxy.planes.ext_authz import ExtAuthzResponder
from proxy.service import ProxyService

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that one request needs.  A handler reads it once, on its first line, so that a request sees one of these.

    A process has of the parts what its `services` need; nothing that it serves asks for the others.
    """

    options: Options
    broker: BrokerClient
    listener: ListenerState
    tracing: tracer.Tracer | None
    authorize: Authorizer | None
    bearers: BearerTokens | None
    authenticate: AuthenticateService | None
    directory: DirectoryService | None
    proxy: ProxyService | None
    ext_authz: ExtAuthzResponder | None
    signing_key: SigningKey | None


def served(part: T | None) -> T:
    """A part that this process has, or it would not have been asked."""
    if part is None:
        raise RuntimeError("this process has no such part")
    return part
