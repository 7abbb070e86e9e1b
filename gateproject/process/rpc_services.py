"""gRPC services: those that this process serves, and its clients of others."""

import hmac
import time
from collections.abc import Callable

from authorize.authorizer import Authorizer
from authorize.ext_authz_types import ExtAuthzDependencies
from authorize.rpc import check_attributes
from authorize.rpc import ext_authz as ext_authz_service
from authorize.rpc.ext_authz import ExtAuthz
from authorize.rpc.remote_authorizer import RemoteAuthorizer
from config.options import Options
from databroker.broker_client import BrokerClient
from databroker.replica import Replica
from databroker.rpc import convert
from databroker.rpc.broker_server import DataBrokerRpc
from databroker.rpc.remote_broker import RemoteBroker
from foundation.rpc.rpc_channel import RpcChannel
from foundation.rpc.rpc_server import RequestAuth, RpcServer
from foundation.rpc.shared_secret import Metadata, SharedSecret
from foundation.values import Url
from gateproject.worker_process import WorkerProcess

# Bytes: the headers of one request and a certificate. Larger messages of unauthenticated callers are rejected.
MAX_UNAUTHENTICATED_BYTES = 512 * 1024


class RpcServices:
    """gRPC services of this process.

    `broker` and `authorize` are clients of other processes, None if this process has the service itself.
    """

    def __init__(self, options: Options, clock: Callable[[], float] = time.time, worker: WorkerProcess | None = None):
        self._worker = worker
        self._local_server: RpcServer | None = None
        self._local_secret = SharedSecret([worker.secret] if worker is not None else options.shared_secret, clock)
        self._options = options
        self._clock = clock
        self._secret = SharedSecret(options.shared_secret, clock)
        self._server: RpcServer | None = None
        self._tokens = options.ext_authz_tokens
        self.authorize = self._channel(options.authorize_service_url)
        self.broker: RemoteBroker | None = None
        if (channel := self._channel(options.databroker_service_url)) is not None:
            # A proxy only needs to know that a token record changed; the change stream omits its content.
            self.broker = RemoteBroker(channel, with_data=options.services != "proxy")
        elif worker is not None and not worker.is_primary:
            self.broker = RemoteBroker(RpcChannel(worker.broker_socket, options, self._local_secret))

    def _channel(self, url: Url | None) -> RpcChannel | None:
        return RpcChannel(url, self._options, self._secret) if url is not None else None

    def authorizer(self, options: Options, replica: Replica, previous: Authorizer | None) -> Authorizer | None:
        """Return the client of `authorize`, or None if this process decides itself."""
        return RemoteAuthorizer(options, self.authorize, replica, self._clock, previous) if self.authorize is not None else None

    def open(self, broker: BrokerClient, dependencies: ExtAuthzDependencies) -> None:
        """Bind the port of `grpc_address`, on the event loop that will run. Raise ConfigError if it is unavailable."""
        if self._worker is not None:
            if not self._worker.is_primary:
                return
            if self.broker is None:
                self._local_server = RpcServer(self._options, self._local_secret)
                self._local_server.add(convert.SERVICE, DataBrokerRpc(broker).methods())
                self._local_server.bind_unix(self._worker.broker_socket)
        if self._options.grpc_address is None:
            return
        self._server = RpcServer(self._options, self._secret, self._authenticate_envoy)
        if self._options.services in ("all", "databroker") and self.broker is None:
            self._server.add(convert.SERVICE, DataBrokerRpc(broker).methods())
        if self._options.services in ("all", "authorize"):
            self._server.add(ext_authz_service.SERVICE, ExtAuthz(dependencies).methods())
        self._server.bind(self._options.grpc_address)

    def _authenticate_envoy(self, method: str, metadata: Metadata) -> bool | RequestAuth:
        """Authenticate an external Envoy by its static token, which is valid for this method only.

        Envoys cannot create a token per call. If an Envoy cannot send metadata (Envoy Gateway), the token is in the request.
        """
        if method != ext_authz_service.CHECK or not self._tokens:
            return False
        credentials = [str(value) for name, value in metadata or () if name == "authorization"]
        if not credentials:
            return self._has_extension_token
        return len(credentials) == 1 and credentials[0].startswith("Bearer ") and self._is_token(credentials[0].removeprefix("Bearer "))

    def _has_extension_token(self, request: bytes) -> bool:
        """Return whether the context extensions have the token. Envoy sets them; its clients cannot."""
        return len(request) <= MAX_UNAUTHENTICATED_BYTES and self._is_token(check_attributes.parse_extension_token(request))

    def _is_token(self, value: str) -> bool:
        return any(hmac.compare_digest(value.encode(), token.reveal().encode()) for token in self._tokens)

    async def start(self) -> None:
        for server in (self._local_server, self._server):
            if server is not None:
                await server.start()

    def reload(self, options: Options) -> None:
        self._secret.replace(options.shared_secret)
        self._tokens = options.ext_authz_tokens
        if self._server is not None:
            self._server.reload(options)

    async def stop_serving(self) -> None:
        for server in (self._server, self._local_server):
            if server is not None:
                await server.stop()

    async def close(self) -> None:
        """Close, after the last call to another service."""
        if self.broker is not None:
            await self.broker.close()
        if self.authorize is not None:
            await self.authorize.close()
