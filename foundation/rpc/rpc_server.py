"""gRPC server of our services: one port, over TLS as configured; only who proves to know `shared_secret` is answered."""

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

from foundation.errors import ConfigError, GateError, NoIdentity, Problem, UpstreamCredentialsUnavailable
from foundation.rpc.rpc_channel import RpcConfig
from foundation.rpc.shared_secret import NO_TOKEN, PROOF, TOKEN, AuthenticationFailed, Metadata, SharedSecret
from foundation.telemetry.grpc_metrics import GrpcMetrics
from foundation.telemetry.logs import BoundedLog
from foundation.telemetry.tracing import tracer
from foundation.telemetry.tracing.spans import NO_SPAN, AnySpan
from foundation.telemetry.tracing.trace_context import TRACEPARENT
from foundation.values import CertificatePair, HostPort

MAX_READS, MAX_READS_PER_ADDRESS = 64, 16
READ_TIMEOUT = 3.0  # seconds, waiting for a turn included: of what a client sends at once nothing waits


def rejecting_handler(reason: str) -> grpc.RpcMethodHandler:
    """Return a handler that refuses a call of any kind without reading its message."""

    async def refuse(_: Any, context: grpc.aio.ServicerContext) -> bytes:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, reason)
        raise AssertionError("abort raises")

    return grpc.stream_unary_rpc_method_handler(refuse)


class BoundedReader:
    """Reader of the messages of callers that have proven nothing: of some at once, and each for a short time."""

    def __init__(self) -> None:
        self._late = BoundedLog("grpc request timed out")
        self._turns = asyncio.Semaphore(MAX_READS)
        self._turns_by_address = WeakValueDictionary[str, asyncio.Semaphore]()

    def bounded(self, handler: grpc.RpcMethodHandler) -> grpc.RpcMethodHandler:
        """Return the handler with its messages read within the bounds."""
        read, write = handler.request_deserializer or bytes, handler.response_serializer
        if handler.request_streaming:

            async def many(_: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
                async for answer in handler.stream_stream(self._messages(read, context), context):
                    yield answer

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
            self._late.tell(client=address)
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the message did not arrive in time")
        raise AssertionError("abort raises")


log = structlog.get_logger(__name__)
REJECTED_CALLS = BoundedLog("grpc call rejected")

# Nothing is told there but that the process serves, and which methods exist.
PUBLIC_SERVICES = ("/grpc.health.v1.Health/", "/grpc.reflection.v1alpha.ServerReflection/")
MAX_REQUEST_BYTES = 4 * 1024 * 1024
MAX_CONCURRENT_STREAMS = 256  # of one connection
GRACE_SECONDS = 1.0  # streams never end by themselves
_CODES = {400: grpc.StatusCode.INVALID_ARGUMENT, 409: grpc.StatusCode.ABORTED, 503: grpc.StatusCode.UNAVAILABLE}

# Does a request prove its caller?
RequestAuth = Callable[[bytes], bool]
# Is this caller of this method, with this metadata, somebody who may call it without a token?  Where only its request can tell: by what.
AlternateAuth = Callable[[str, Metadata], bool | RequestAuth]


class RpcServer:
    """The server of one event loop.  `add` everything, `open`, then `start`."""

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
        """Take the port; ConfigError where it can't be had.  Nobody is answered before `start`."""
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
        """Serve the other processes of this gate at a socket in a directory that is ours alone, without TLS."""
        self._server.add_insecure_port(f"unix:{path}")
        self._address = str(path)

    def reload(self, options: RpcConfig) -> None:
        """Take over the certificates of these options for new connections."""
        self._certificates.pairs = options.certificate_pairs

    async def start(self) -> None:
        await self._server.start()
        for service in self._services:
            await self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)
        log.info("grpc listener started", address=self._address, tls=not self._options.grpc_insecure and self.port > 0)

    async def stop(self) -> None:
        """Health says so first, then what is under way has a moment; streams end with it."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(GRACE_SECONDS)


# enforcement-point: Services and certificates: Authentication of gRPC calls
class AuthInterceptor(grpc.aio.ServerInterceptor):
    """Interceptor of every method: no token, no service.

    Nothing of a message is read before the caller is proven.  Where the message is the proof, and where none is required, it is read within
    bounds (`BoundedReader`).
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
            REJECTED_CALLS.tell(method=method, reason=str(error))
            self.calls.observe(method, grpc.StatusCode.UNAUTHENTICATED, 0.0, 0, 0)
            return rejecting_handler(str(error))
        handler = await continuation(handler_call_details)
        trace = "" if admits is not None else _trace(metadata)
        handler = handler and _wrap_handler(handler, AuthenticatedCall(method, proof, self.calls, trace, admits))
        return self._reader.bounded(handler) if handler and admits is not None else handler

    def _proof(self, method: str, metadata: Metadata) -> tuple[str, RequestAuth | None]:
        """The proof for the caller, nothing for one who was let in without a token and could not check it; and what the request must
        pass, where nothing else has proven the caller."""
        other = TOKEN not in dict(metadata or ()) and self._other_proof(method, metadata)
        if callable(other):
            return "", other
        return ("" if other else self._secret.verify_token(method, metadata)), None


def _trace(metadata: Metadata) -> str:
    """The trace that the caller names, who has proven itself by then; once, or it says nothing."""
    if tracer.in_force() is None:
        return ""
    named = [str(value) for name, value in metadata or () if name == TRACEPARENT]
    return named[0] if len(named) == 1 else ""


@dataclass(frozen=True, slots=True)
class AuthenticatedCall:
    """A call that was let in: what proves us to its caller, and who counts it."""

    method: str
    proof: str
    metrics: GrpcMetrics
    trace: str = ""  # the caller's span, where it is traced
    allows: RequestAuth | None = None  # who has proven nothing before is answered only where this says so

    def span(self) -> AnySpan:
        if not self.trace or (tracing := tracer.in_force()) is None:
            return NO_SPAN
        return tracing.join(self.method.removeprefix("/"), self.trace) or NO_SPAN

    async def authenticate(self, request: bytes, context: grpc.aio.ServicerContext) -> None:
        """Each side proves itself: nothing of the request is used, and nothing answered, before this."""
        if self.allows is not None and not self.allows(request):
            REJECTED_CALLS.tell(method=self.method, reason=NO_TOKEN)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, NO_TOKEN)
        # Not where there is nothing to prove: what is sent by itself costs a fifth of a call.
        if self.proof:
            await context.send_initial_metadata(((PROOF, self.proof),))


def _wrap_handler(handler: grpc.RpcMethodHandler, call: AuthenticatedCall) -> grpc.RpcMethodHandler:
    """A method that proves itself before it answers; its errors are told in words that are for callers, and it is counted."""
    read, write = handler.request_deserializer or bytes, handler.response_serializer or bytes

    async def unary(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        began, status, answer = time.perf_counter(), grpc.StatusCode.CANCELLED, b""
        try:
            with call.span():
                await call.authenticate(request, context)
                answer = write(await handler.unary_unary(read(request), context))
            status = grpc.StatusCode.OK
            return answer
        except Exception as error:
            status = _grpc_status(error, context)
            await _abort(error, status, context, call.method)
        finally:
            call.metrics.observe(call.method, status, time.perf_counter() - began, len(request), len(answer))

    async def stream(request: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        began, status, sent = time.perf_counter(), grpc.StatusCode.CANCELLED, 0
        try:
            await call.authenticate(request, context)
            async for message in handler.unary_stream(read(request), context):
                answer = write(message)
                sent += len(answer)
                yield answer
            status = grpc.StatusCode.OK
        except Exception as error:
            status = _grpc_status(error, context)
            await _abort(error, status, context, call.method)
        finally:
            call.metrics.observe(call.method, status, time.perf_counter() - began, len(request), sent)

    return grpc.unary_stream_rpc_method_handler(stream) if handler.response_streaming else grpc.unary_unary_rpc_method_handler(unary)


def _grpc_status(error: Exception, context: grpc.aio.ServicerContext) -> grpc.StatusCode:
    if isinstance(error, grpc.aio.AbortError):
        code = context.code()
        return code if isinstance(code, grpc.StatusCode) else grpc.StatusCode.UNKNOWN
    if isinstance(error, UpstreamCredentialsUnavailable):  # to ask again at once would bring the same
        return grpc.StatusCode.PERMISSION_DENIED if isinstance(error, NoIdentity) else grpc.StatusCode.FAILED_PRECONDITION
    return _CODES.get(error.status, grpc.StatusCode.INTERNAL) if isinstance(error, GateError) else grpc.StatusCode.INTERNAL


async def _abort(error: Exception, status: grpc.StatusCode, context: grpc.aio.ServicerContext, method: str) -> NoReturn:
    """Error boundary of gRPC: whatever went wrong, callers are told nothing of it that was not written for them."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, GateError):
        await context.abort(status, str(error))
    log.error("grpc call failed", method=method, exc_info=error)
    await context.abort(status, "internal error; see the server's log")
    raise AssertionError("abort raises")


class _ServedCertificates:
    """Certificate pairs by the name that the client asks for; the first where it asks for another.  gRPC asks at each handshake."""

    def __init__(self, pairs: Sequence[CertificatePair]):
        self.pairs = self._given = pairs

    def credentials(self) -> grpc.ServerCredentials:
        return grpc.dynamic_ssl_server_credentials(self._configuration(), self._changed)

    def _changed(self) -> grpc.ServerCertificateConfiguration | None:
        """New certificates, None where gRPC has them already; called on threads of its own."""
        if self.pairs is self._given:
            return None
        self._given = self.pairs
        return self._configuration()

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(pair.key.reveal(), pair.certificate) for pair in self.pairs])


def _server_options(options: RpcConfig) -> list[tuple[str, int]]:
    return [
        # Else a second process on this port would silently get half of the calls.
        ("grpc.so_reuseport", 0),
        ("grpc.max_connection_age_ms", _milliseconds(options.grpc_server_max_connection_age.total_seconds())),
        ("grpc.max_connection_age_grace_ms", _milliseconds(options.grpc_server_max_connection_age_grace.total_seconds())),
        ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
        ("grpc.max_concurrent_streams", MAX_CONCURRENT_STREAMS),
        # Else the window of a stream grows with what a client sends, whether anybody reads it or not.
        ("grpc.http2.bdp_probe", 0),
        # The identity alone: a compressed message within the bound may decompress to a thousand times as much.
        ("grpc.compression_enabled_algorithms_bitset", 1),
        # Our clients ask every ten seconds whether a silent connection still stands.
        ("grpc.http2.min_ping_interval_without_data_ms", 5000),
        ("grpc.keepalive_permit_without_calls", 1),
    ]


def _milliseconds(seconds: float) -> int:
    return min(int(seconds * 1000), 2**31 - 1)
