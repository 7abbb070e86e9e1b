"""gRPC channel to another gate service, with mutual authentication and a deadline for each call."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import grpc

from foundation.errors import GateError
from foundation.rpc.shared_secret import TOKEN, AuthenticationFailed, SharedSecret
from foundation.telemetry.grpc_metrics import GrpcMetrics
from foundation.telemetry.tracing.spans import CLIENT, span
from foundation.telemetry.tracing.trace_context import TRACEPARENT
from foundation.values import DEFAULT_PORTS, CertificatePair, Url


class RpcConfig(Protocol):
    """Configuration values of clients and servers."""

    grpc_insecure: bool
    certificate_authority: bytes | None
    override_certificate_name: str | None
    grpc_client_timeout: timedelta
    grpc_client_dns_roundrobin: bool
    grpc_server_max_connection_age: timedelta
    grpc_server_max_connection_age_grace: timedelta

    @property
    def service_label(self) -> str: ...
    @property
    def certificate_pairs(self) -> tuple[CertificatePair, ...]: ...


RETRY_DELAY = 0.05  # seconds; gRPC itself waits for the connection to come back
MAX_RESPONSE_BYTES = 64 * 1024 * 1024
# Codes that gRPC sends before a method runs; accepted without authentication, because the call fails either way.
_UNAUTHENTICATED_CODES = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED}
)

Message = Any
RPC = {"rpc.system": "grpc"}


class RpcError(GateError):
    """A call to another service failed; `code` is the gRPC status code."""

    status = 503

    def __init__(self, code: grpc.StatusCode, details: str):
        self.code, self.details = code, details
        super().__init__(f"{code.name.lower().replace('_', ' ')}: {details}")


# enforcement-point: Services and certificates: Responses of other services
class RpcChannel:
    """Connections to one service, opened by the first call and used on its event loop only."""

    def __init__(self, address: Url | Path, options: RpcConfig, secret: SharedSecret):
        """`address` is a URL, or the path of a Unix socket, which needs no TLS."""
        self._target = grpc_target(address)
        self._secret = secret
        self._timeout = options.grpc_client_timeout.total_seconds()
        self._channel_options = channel_options(options)
        is_plain = options.grpc_insecure or isinstance(address, Path)
        self._credentials = None if is_plain else grpc.ssl_channel_credentials(root_certificates(options.certificate_authority))
        self._channel: grpc.aio.Channel | None = None
        self._methods: dict[str, Any] = {}
        self._was_connected = False
        host = "unix" if isinstance(address, Path) else f"{address.host}:{address.port or DEFAULT_PORTS[address.scheme]}"
        self._calls = GrpcMetrics.client(options.service_label, host)

    def __repr__(self) -> str:
        return f"<RpcChannel {self._target}>"

    async def call(self, method: str, request: Message, response_type: type[Message], *, idempotent: bool = False) -> Message:
        """Return the response within `grpc_client_timeout`. Raise RpcError.

        The call waits for a server that is down. After a lost connection it is retried only if it is `idempotent`, because the server may
        have processed it.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        while True:
            try:
                with span(method.removeprefix("/"), CLIENT, RPC) as traced:
                    return await self._call_once(method, request, response_type, deadline - loop.time(), traced.traceparent)
            except RpcError as error:
                if not idempotent or error.code is not grpc.StatusCode.UNAVAILABLE or loop.time() + RETRY_DELAY >= deadline:
                    raise
            await asyncio.sleep(RETRY_DELAY)

    async def stream(self, method: str, request: Message, response_type: type[Message], idle_timeout: float) -> AsyncGenerator[Message]:
        """Yield the messages of a stream. Raise RpcError if it breaks or is idle for `idle_timeout` seconds.

        Fails immediately if the server is down.
        """
        token, sent = self._secret.token(method), request.SerializeToString()
        self._calls.register_methods([method])
        call = self._open().unary_stream(method)(sent, metadata=((TOKEN, token),))
        started_at, status, received = time.perf_counter(), grpc.StatusCode.CANCELLED, 0
        try:
            async with asyncio.timeout(idle_timeout):
                self._secret.verify_proof(method, token, await call.initial_metadata())
            while True:
                async with asyncio.timeout(idle_timeout):
                    message = await call.read()
                if message is grpc.aio.EOF:
                    status = grpc.StatusCode.OK
                    return
                received += len(message)
                yield response_type.FromString(message)
        except TimeoutError as error:
            status = grpc.StatusCode.UNAVAILABLE
            raise RpcError(status, f"{method} timed out after {idle_timeout:g} seconds") from error
        except (AuthenticationFailed, grpc.aio.AioRpcError) as error:
            failure = await self._failure(call, error)
            status = failure.code
            raise failure from error
        finally:
            self._calls.observe(method, status, time.perf_counter() - started_at, len(sent), received)
            call.cancel()

    @property
    def is_connected(self) -> bool:
        """Whether the last connection attempt succeeded; starts an attempt if there was none."""
        state = self._open().get_state(try_to_connect=True)
        # A connection that reached its maximum age is idle or connecting, so these states do not mean that the server is down.
        self._was_connected = state is grpc.ChannelConnectivity.READY or (
            self._was_connected and state is not grpc.ChannelConnectivity.TRANSIENT_FAILURE
        )
        return self._was_connected

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
            self._methods.clear()

    async def _call_once(self, method: str, request: Message, answer: type[Message], timeout: float, trace: str) -> Message:
        token, sent, received = self._secret.token(method), request.SerializeToString(), b""
        if (multicallable := self._methods.get(method)) is None:
            multicallable = self._methods[method] = self._open().unary_unary(method)
            self._calls.register_methods([method])
        metadata = ((TOKEN, token), (TRACEPARENT, trace)) if trace else ((TOKEN, token),)
        call = multicallable(sent, metadata=metadata, timeout=timeout, wait_for_ready=True)
        started_at, status = time.perf_counter(), grpc.StatusCode.CANCELLED
        try:
            self._secret.verify_proof(method, token, await call.initial_metadata())
            received = await call
            status = grpc.StatusCode.OK
            return answer.FromString(received)
        except (AuthenticationFailed, grpc.aio.AioRpcError) as error:
            failure = await self._failure(call, error)
            status = failure.code
            raise failure from error
        finally:
            self._calls.observe(method, status, time.perf_counter() - started_at, len(sent), len(received))
            call.cancel()

    async def _failure(self, call: Any, error: AuthenticationFailed | grpc.aio.AioRpcError) -> RpcError:
        """Return the error of a call; an unauthenticated status is accepted only if it means that no method ran."""
        if isinstance(error, grpc.aio.AioRpcError):
            return RpcError(error.code(), error.details() or "")
        code = grpc.StatusCode.OK
        with contextlib.suppress(TimeoutError):
            # A rejection sends its code with the metadata; any other server is not waited for.
            async with asyncio.timeout(0.2):
                code = await call.code()
        if code in _UNAUTHENTICATED_CODES:
            return RpcError(code, await call.details() or "")
        return RpcError(grpc.StatusCode.UNKNOWN, str(error))

    def _open(self) -> grpc.aio.Channel:
        if self._channel is None:
            if self._credentials is None:
                self._channel = grpc.aio.insecure_channel(self._target, options=self._channel_options)
            else:
                self._channel = grpc.aio.secure_channel(self._target, self._credentials, options=self._channel_options)
        return self._channel


def grpc_target(url: Url | Path) -> str:
    """Return the gRPC target of a URL or socket path: IP addresses as they are, names resolved by DNS."""
    if isinstance(url, Path):
        return f"unix:{url}"
    port = url.port or DEFAULT_PORTS[url.scheme]
    if url.host.startswith("["):
        return f"ipv6:{url.host}:{port}"
    return f"ipv4:{url.host}:{port}" if url.host.replace(".", "").isdigit() else f"dns:///{url.host}:{port}"


def channel_options(options: RpcConfig) -> list[tuple[str, Any]]:
    policy = "round_robin" if options.grpc_client_dns_roundrobin else "pick_first"
    arguments: list[tuple[str, Any]] = [
        ("grpc.service_config", f'{{"loadBalancingConfig":[{{"{policy}":{{}}}}]}}'),
        ("grpc.service_config_disable_resolution", 1),  # DNS must not change the service config
        ("grpc.enable_http_proxy", 0),  # nor a proxy environment variable the target
        ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
        # Detects a restarted server within two seconds, and a dead connection within twenty.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 1000),
        ("grpc.max_reconnect_backoff_ms", 2000),
        ("grpc.dns_min_time_between_resolutions_ms", 1000),
        ("grpc.keepalive_time_ms", 10000),
        ("grpc.keepalive_timeout_ms", 3000),
        # For connections with pending writes; the default is a minute.
        ("grpc.http2.ping_timeout_ms", 10000),
    ]
    if options.override_certificate_name is not None:
        arguments.append(("grpc.ssl_target_name_override", options.override_certificate_name))
    return arguments


def root_certificates(certificate_authority: bytes | None) -> bytes | None:
    """Return the system's CAs and the configured one as PEM; None, for gRPC's built-in list, if there are none."""
    paths = ssl.get_default_verify_paths()
    file = Path(paths.cafile or paths.openssl_cafile)
    system = file.read_bytes() if file.is_file() else b""
    return b"\n".join(filter(None, [system, certificate_authority])) or None
