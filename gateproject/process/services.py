"""Services of one configuration in this process. Each request reads them once."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from authenticate.bearer_token_verification import BearerTokens
from authenticate.directory.directory_service import DirectoryService
from authenticate.service import AuthenticateService
from authorize.authorizer import Authorizer
from authorize.service import AuthorizeService
from config.options import Options
from databroker.broker_client import BrokerClient
from databroker.service import DataBrokerService
from foundation.crypto.signing_key import SigningKey
from foundation.telemetry.tracing import tracer
from gateproject.process.rpc import Rpc
from proxy.listener.listener_context import ListenerSettings
from proxy.listener.tls.acme_state import AcmeState
from proxy.planes.ext_authz import ExtAuthzResponder
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.planes.shared_resources import SharedResources
from proxy.service import ProxyService

T = TypeVar("T")

# Roles: values of `services` that include a task.
AUTHENTICATE_ROLES = ("all", "authenticate")
DIRECTORY_ROLES = (*AUTHENTICATE_ROLES, "databroker")
HTTP_ROLES = ("all", "authenticate", "proxy")
GRPC_ONLY_ROLES = ("authorize", "databroker")
EXT_AUTHZ_ROLES = ("all", "authorize")


@dataclass(frozen=True, slots=True)
class Services:
    """Services of one configuration. A service is None if `services` does not include it, and then nothing uses it.

    `options` is the configuration; `broker` stores records; `authorize` decides, with `bearers` for external tokens; `authenticate` signs
    users in; `directory` syncs users and groups; `proxy` forwards, behind `listener`; `ext_authz` serves external Envoys; `tracing`
    receives spans; `signing_key` signs assertions.

    A handler reads them once, on its first line, so that a request uses a single configuration.
    """

    options: Options
    broker: BrokerClient
    listener: ListenerSettings
    tracing: tracer.Tracer | None
    authorize: Authorizer | None
    bearers: BearerTokens | None
    authenticate: AuthenticateService | None
    directory: DirectoryService | None
    proxy: ProxyService | None
    ext_authz: ExtAuthzResponder | None
    signing_key: SigningKey | None


def require_service(part: T | None) -> T:
    """Return a service that this process must have. Raise RuntimeError if it is None."""
    if part is None:
        raise RuntimeError("not available in this process")
    return part


@dataclass(frozen=True, slots=True)
class ServiceBuilder:
    """Builder of services, from the objects that outlive a configuration.

    `rpc` has the authorizer of another process, or none if this process decides itself.
    """

    databroker: DataBrokerService
    resources: SharedResources
    acme: AcmeState
    rpc: Rpc
    wants_certificate: Callable[[str | None], bool]
    clock: Callable[[], float]

    def build(self, options: Options, previous: Services | None = None, key: SigningKey | None = None) -> Services:
        """Return the services that `services` names; `key` is the signing key of the primary. Raise ConfigError.

        Running services are not modified.
        """
        kind, broker, clock = options.services, self.databroker.client, self.clock
        known = key or (previous.signing_key if previous else None)
        signing_key = SigningKey.from_options(options, known) if kind not in ("proxy", "databroker") else None
        bearers = BearerTokens.from_options(options, clock) if kind in EXT_AUTHZ_ROLES else None
        authorize = self._authorizer(options, signing_key, previous.authorize if previous else None, bearers)
        directory = DirectoryService(options, broker, clock) if kind in DIRECTORY_ROLES else None
        authenticate = proxy = ext_authz = pipeline = None
        if authorize is not None:
            pipeline = AuthorizationPipeline(options, authorize, self.resources, clock)
        if kind in AUTHENTICATE_ROLES:
            authenticate = AuthenticateService(options, broker, require_service(signing_key), clock, require_service(directory))
        if kind in HTTP_ROLES:
            proxy = ProxyService(options, require_service(pipeline), self.resources)
        if kind in EXT_AUTHZ_ROLES:
            ext_authz = ExtAuthzResponder(options, require_service(pipeline))
        tracing = tracer.Tracer.from_options(options, previous.tracing if previous else None)
        before = previous.listener if previous else None
        listener = ListenerSettings.build(options, before, self.wants_certificate, self.acme)
        parts = (authorize, bearers, authenticate, directory, proxy, ext_authz, signing_key)
        return Services(options, broker, listener, tracing, *parts)

    def _authorizer(
        self, options: Options, signing_key: SigningKey | None, before: Authorizer | None, bearers: BearerTokens | None
    ) -> Authorizer | None:
        if options.services == "databroker":
            return None
        if (remote := self.rpc.authorizer(options, self.databroker.replica, before)) is not None:
            return remote
        return AuthorizeService(
            options, self.databroker.replica, require_service(signing_key), self.clock, before, bearers, self.databroker.client
        )
