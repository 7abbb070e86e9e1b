"""gRPC server of gate's services, with authentication by `shared_secret` and TLS as configured."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast
from weakref import WeakValueDictionary

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from foundation.errors import AccountConnectionRequired, ConfigError, GateError, NoIdentity, Problem, UpstreamCredentialsUnavailable
from foundation.rpc.rpc_channel import RpcConfig
from foundation.rpc.shared_secret import NO_TOKEN, PROOF, TOKEN, AuthenticationFailed, Metadata, SharedSecret
from foundation.telemetry.grpc_metrics import GrpcMetrics
from foundation.telemetry.logs import BoundedLog
from foundation.telemetry.tracing import tracer
from foundation.telemetry.tracing.spans import NO_SPAN, AnySpan
from foundation.telemetry.tracing.trace_context import TRACEPARENT
from foundation.values import CertificatePair, HostPort

MAX_READS, MAX_READS_PER_ADDRESS = 64, 16
READ_TIMEOUT = 3.0  # seconds, including the wait for a slot; a message that the client sends immediately arrives in time


def rejecting_handler(reason: str) -> grpc.RpcMethodHandler:
    """Return a handler that rejects a call of any kind without reading its message."""

    async def refuse(_: Any, context: grpc.aio.ServicerContext) -> bytes:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, reason)
        raise AssertionError("abort raises")

    return grpc.stream_unary_rpc_method_handler(refuse)


class BoundedReader:
    """Reader of messages of unauthenticated callers, with limits on concurrency and time."""

    def __init__(self) -> None:
        self._late = BoundedLog("grpc request timed out")
        self._turns = asyncio.Semaphore(MAX_READS)
        self._turns_by_address = WeakValueDictionary[str, asyncio.Semaphore]()

    def bounded(self, handler: grpc.RpcMethodHandler) -> grpc.RpcMethodHandler:
        """Return the handler with its messages read within the limits."""
        read, write = handler.request_deserializer or bytes, handler.response_serializer
        if handler.request_streaming:

            async def many(_: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
                async for response in handler.stream_stream(self._messages(read, context), context):
                    yield response

            return grpc.stream_stream_rpc_method_handler(many, response_serializer=write)
        behavior: Any = handler.unary_stream if handler.response_streaming else handler.unary_unary

        async def one(_: Any, context: grpc.aio.ServicerContext) -> Any:
            return await behavior(read(await self._message(context)), context)

        made = grpc.stream_stream_rpc_method_handler if handler.response_streaming else grpc.stream_unary_rpc_method_handler
        return made(one, response_serializer=write)

    async def _messages(self, read: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
        while (message := await self._read(context)) is not grpc.aio.EOF:
            yield read(message)

    async def _message(self, context: grpc.aio.ServicerContext) -> bytes:
        message = await self._read(context)
        if message is grpc.aio.EOF:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message")
        return cast(bytes, message)

    async def _read(self, context: grpc.aio.ServicerContext) -> Any:
        address = context.peer().rpartition(":")[0]
        turns = self._turns_by_address.setdefault(address, asyncio.Semaphore(MAX_READS_PER_ADDRESS))
        try:
            async with asyncio.timeout(READ_TIMEOUT), turns, self._turns:
                return await context.read()
        except TimeoutError:
            self._late.emit(client_address=address)
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the message did not arrive in time")
        raise AssertionError("abort raises")


log = structlog.get_logger(__name__)
REJECTED_CALLS = BoundedLog("grpc call rejected")

# Public: they disclose only that the process serves, and which methods exist.
PUBLIC_SERVICES = ("/grpc.health.v1.Health/", "/grpc.reflection.v1alpha.ServerReflection/")
MAX_REQUEST_BYTES = 4 * 1024 * 1024
MAX_CONCURRENT_STREAMS = 256  # per connection
GRACE_SECONDS = 1.0  # streams do not end by themselves
_CODES = {400: grpc.StatusCode.INVALID_ARGUMENT, 409: grpc.StatusCode.ABORTED, 503: grpc.StatusCode.UNAVAILABLE}

# Authenticates a caller by its serialized request.
RequestAuth = Callable[[bytes], bool]
# Returns whether a call of this method with this metadata is allowed without a token, or a function that decides by the request.
AlternateAuth = Callable[[str, Metadata], bool | RequestAuth]


class RpcServer:
    """Server of one event loop: `add` all services, then `bind`, then `start`."""

    def __init__(self, options: RpcConfig, secret: SharedSecret, alternate_auth: AlternateAuth = lambda method, metadata: False):
        self._options = options
        self._health = health.aio.HealthServicer()
        self._services = [health.SERVICE_NAME, reflection.SERVICE_NAME]
        self._calls = GrpcMetrics.server(options.service_label)
        self._server = grpc.aio.server(
            interceptors=[AuthInterceptor(secret, alternate_auth, self._calls)], options=_server_options(options)
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._certificates = _ServedCertificates(options.certificate_pairs)
        self.port = 0
        self._address = ""

    def add(self, service: str, methods: Mapping[str, grpc.RpcMethodHandler]) -> None:
        if any(handler.request_streaming for handler in methods.values()):
            raise NotImplementedError("client streams are not supported")
        self._services.append(service)
        self._calls.register_methods(f"/{service}/{name}" for name in methods)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, dict(methods)),))

    def bind(self, address: HostPort) -> None:
        """Bind the port. Raise ConfigError if it is not available. Calls are served only after `start`."""
        reflection.enable_server_reflection(self._services, self._server)
        where = f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host or '[::]'}:{address.port}"
        try:
            if self._options.grpc_insecure:
                self.port = self._server.add_insecure_port(where)
            else:
                self.port = self._server.add_secure_port(where, self._certificates.credentials())
        except RuntimeError as error:
            raise ConfigError([Problem("grpc_address", f"can't listen on {address}. Check that no other process uses the port")]) from error
        self._address = f"{where.rpartition(':')[0]}:{self.port}"

    def bind_unix(self, path: Path) -> None:
        """Serve gate's other processes at a Unix socket in a private directory, without TLS."""
        self._server.add_insecure_port(f"unix:{path}")
        self._address = str(path)

    def reload(self, options: RpcConfig) -> None:
        """Use the certificates of these options for new connections."""
        self._certificates.pairs = options.certificate_pairs

    async def start(self) -> None:
        await self._server.start()
        for service in self._services:
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)
        log.info("grpc listener started", address=self._address, tls=not self._options.grpc_insecure and self.port > 0)

    async def stop(self) -> None:
        """Report NOT_SERVING, give running calls `GRACE_SECONDS`, then end them and all streams."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(GRACE_SECONDS)


# enforcement-point: Services and certificates: Authentication of gRPC calls
class AuthInterceptor(grpc.aio.ServerInterceptor):
    """Interceptor that authenticates the caller of every method.

    No message is read before that. If the message itself authenticates the caller, or the method is public, it is read within limits
    (`BoundedReader`).
    """

    def __init__(self, secret: SharedSecret, other_proof: AlternateAuth, calls: GrpcMetrics):
        self.calls = calls
        self._secret = secret
        self._other_proof = other_proof
        self._reader = BoundedReader()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        method, metadata = handler_call_details.method, handler_call_details.invocation_metadata
        if method.startswith(PUBLIC_SERVICES):
            handler = await continuation(handler_call_details)
            return handler and self._reader.bounded(handler)
        try:
            proof, admits = self._proof(method, metadata)
        except AuthenticationFailed as error:
            REJECTED_CALLS.emit(method=method, reason=str(error))
            self.calls.observe(method, grpc.StatusCode.UNAUTHENTICATED, 0.0, 0, 0)
            return rejecting_handler(str(error))
        handler = await continuation(handler_call_details)
        trace = "" if admits is not None else _trace(metadata)
        handler = handler and _wrap_handler(handler, AuthenticatedCall(method, proof, self.calls, trace, admits))
        return self._reader.bounded(handler) if handler and admits is not None else handler

    def _proof(self, method: str, metadata: Metadata) -> tuple[str, RequestAuth | None]:
        """Return the proof for the caller, and the check that the request must pass if nothing else authenticates the caller.

        The proof is empty for a caller without token, which could not verify it.
        """
        other = TOKEN not in dict(metadata or ()) and self._other_proof(method, metadata)
        if callable(other):
            return "", other
        return ("" if other else self._secret.verify_token(method, metadata)), None


def _trace(metadata: Metadata) -> str:
    """Return the `traceparent` of an authenticated caller; empty if it is missing or duplicate."""
    if tracer.current_tracer() is None:
        return ""
    named = [str(value) for name, value in metadata or () if name == TRACEPARENT]
    return named[0] if len(named) == 1 else ""


@dataclass(frozen=True, slots=True)
class AuthenticatedCall:
    """Accepted call: the proof for its caller, and its metrics."""

    method: str
    proof: str
    metrics: GrpcMetrics
    trace: str = ""  # the caller's span, if it is traced
    allows: RequestAuth | None = None  # check of the request, for a caller that nothing else authenticates

    def span(self) -> AnySpan:
        if not self.trace or (tracing := tracer.current_tracer()) is None:
            return NO_SPAN
        return tracing.start_remote(self.method.removeprefix("/"), self.trace) or NO_SPAN

    async def authenticate(self, request: bytes, context: grpc.aio.ServicerContext) -> None:
        """Check the request if required, and send the proof. Runs before the request is used and before any response."""
        if self.allows is not None and not self.allows(request):
            REJECTED_CALLS.emit(method=self.method, reason=NO_TOKEN)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, NO_TOKEN)
        # Only if there is a proof, because separate metadata costs a fifth of a call.
        if self.proof:
            await context.send_initial_metadata(((PROOF, self.proof),))


def _wrap_handler(handler: grpc.RpcMethodHandler, call: AuthenticatedCall) -> grpc.RpcMethodHandler:
    """Wrap a method handler with authentication, an error boundary, and metrics."""
    read, write = handler.request_deserializer or bytes, handler.response_serializer or bytes

    async def unary(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        started_at, status, response = time.perf_counter(), grpc.StatusCode.CANCELLED, b""
        try:
            with call.span():
                await call.authenticate(request, context)
                response = write(await handler.unary_unary(read(request), context))
            status = grpc.StatusCode.OK
            return response
        except Exception as error:
            status = _grpc_status(error, context)
            await _abort(error, status, context, call.method)
        finally:
            call.metrics.observe(call.method, status, time.perf_counter() - started_at, len(request), len(response))

    async def stream(request: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        started_at, status, sent = time.perf_counter(), grpc.StatusCode.CANCELLED, 0
        try:
            await call.authenticate(request, context)
            async for message in handler.unary_stream(read(request), context):
                response = write(message)
                sent += len(response)
                yield response
            status = grpc.StatusCode.OK
        except Exception as error:
            status = _grpc_status(error, context)
            await _abort(error, status, context, call.method)
        finally:
            call.metrics.observe(call.method, status, time.perf_counter() - started_at, len(request), sent)

    return grpc.unary_stream_rpc_method_handler(stream) if handler.response_streaming else grpc.unary_unary_rpc_method_handler(unary)


def _grpc_status(error: Exception, context: grpc.aio.ServicerContext) -> grpc.StatusCode:
    if isinstance(error, grpc.aio.AbortError):
        code = context.code()
        return code if isinstance(code, grpc.StatusCode) else grpc.StatusCode.UNKNOWN
    if isinstance(error, AccountConnectionRequired):
        return grpc.StatusCode.NOT_FOUND
    if isinstance(error, UpstreamCredentialsUnavailable):  # not UNAVAILABLE, because an immediate retry would fail again
        return grpc.StatusCode.PERMISSION_DENIED if isinstance(error, NoIdentity) else grpc.StatusCode.FAILED_PRECONDITION
    return _CODES.get(error.status, grpc.StatusCode.INTERNAL) if isinstance(error, GateError) else grpc.StatusCode.INTERNAL


async def _abort(error: Exception, status: grpc.StatusCode, context: grpc.aio.ServicerContext, method: str) -> NoReturn:
    """Abort a call after an error. Callers get the message of a GateError only; details of any other error are logged."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, GateError):
        await context.abort(status, str(error))
    log.error("grpc call failed", method=method, exc_info=error)
    await context.abort(status, "internal error; see the server's log")
    raise AssertionError("abort raises")


class _ServedCertificates:
    """Certificate pairs, selected by the client's SNI, else the first. gRPC queries for changes at each handshake."""

    def __init__(self, pairs: Sequence[CertificatePair]):
        self.pairs = self._served = pairs

    def credentials(self) -> grpc.ServerCredentials:
        return grpc.dynamic_ssl_server_credentials(self._configuration(), self._changed)

    def _changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return changed certificates, or None. gRPC calls this on its own threads."""
        if self.pairs is self._served:
            return None
        self._served = self.pairs
        return self._configuration()

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(pair.key.reveal(), pair.certificate) for pair in self.pairs])


def _server_options(options: RpcConfig) -> list[tuple[str, int]]:
    return [
        # Otherwise a second process on this port would silently receive half of the calls.
        ("grpc.so_reuseport", 0),
        ("grpc.max_connection_age_ms", _milliseconds(options.grpc_server_max_connection_age.total_seconds())),
        ("grpc.max_connection_age_grace_ms", _milliseconds(options.grpc_server_max_connection_age_grace.total_seconds())),
        ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
        ("grpc.max_concurrent_streams", MAX_CONCURRENT_STREAMS),
        # Otherwise the flow-control window of a stream grows with the data sent, even if the server does not read it.
        ("grpc.http2.bdp_probe", 0),
        # Only identity, because a compressed message within the limit may decompress to a thousand times its size.
        ("grpc.compression_enabled_algorithms_bitset", 1),
        # gate's clients ping idle connections every ten seconds.
        ("grpc.http2.min_ping_interval_without_data_ms", 5000),
        ("grpc.keepalive_permit_without_calls", 1),
    ]


def _milliseconds(seconds: float) -> int:
    return min(int(seconds * 1000), 2**31 - 1)
