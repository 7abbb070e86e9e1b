"""Services of this process: the parts of gate that one configuration has made, read once by each request."""

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
    """Services of one configuration; what is None no process of its `services` has, and nothing that it serves asks for it.

    `options` made them; `broker` keeps records; `authorize` decides, with `bearers` for foreign tokens; `authenticate` signs in,
    `directory`
    syncs people and groups; `proxy` carries, below `listener`; `ext_authz` answers other Envoys; `tracing` takes spans; `signing_key`
    attests.

    A handler reads them once, on its first line, so that a request sees those of one configuration.
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
    """Service that this process has, or it would not have been asked; RuntimeError."""
    if part is None:
        raise RuntimeError("this process has no such part")
    return part
