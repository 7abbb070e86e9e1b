"""gRPC health check (grpc.health.v1): one request to an upstream's health service, on a new connection.

It does not use a grpcio channel, because that cannot skip certificate verification, which a route may require.
"""

import ssl
import struct

import httpx
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from config.routes.upstreams.upstream_health import GrpcHealthCheck
from proxy.upstreams.health_state import HealthCheckFailed
from proxy.upstreams.outgoing_request import Upstream

METHOD = "/grpc.health.v1.Health/Check"
_MAX_RESPONSE_BYTES = 64 * 1024  # a regular response has about a dozen bytes
_PREFIX = struct.Struct(">BI")  # compressed flag, length


async def check_grpc(upstream: Upstream, context: ssl.SSLContext | None, check: GrpcHealthCheck, timeout_seconds: float) -> None:
    """Check an upstream's gRPC health service.

    Raises HealthCheckFailed unless the response is SERVING, and OSError if there is none or a step exceeds `timeout_seconds`.
    """
    request = health_pb2.HealthCheckRequest(service=check.service_name).SerializeToString()
    headers = {
        "host": check.authority or upstream.url.raw_authority,
        "content-type": "application/grpc",
        "te": "trailers",
        "user-agent": "gate-health-check",
    }
    name = upstream.server_hostname or upstream.host
    client = httpx.AsyncClient(
        http1=False, http2=True, verify=True if context is None else context, trust_env=False, timeout=timeout_seconds
    )
    url = f"{upstream.url.scheme}://{upstream.url.raw_authority}{METHOD}"
    try:
        async with (
            client,
            client.stream(
                "POST", url, content=_PREFIX.pack(0, len(request)) + request, headers=headers, extensions={"sni_hostname": name}
            ) as response,
        ):
            await _require_serving(response)
    except httpx.HTTPError as error:
        raise OSError(str(error) or type(error).__name__) from error


async def _require_serving(response: httpx.Response) -> None:
    if response.status_code != httpx.codes.OK:
        raise HealthCheckFailed(f"status {response.status_code}", immediate=response.status_code == httpx.codes.SERVICE_UNAVAILABLE)
    received = b""
    async for chunk in response.aiter_raw():
        received += chunk
        if len(received) > _MAX_RESPONSE_BYTES:
            raise HealthCheckFailed("its health response is too long")
    if not received:
        raise HealthCheckFailed(f"grpc-status {response.headers.get('grpc-status', 'missing')}")
    try:
        is_compressed, length = _PREFIX.unpack_from(received)
        message = health_pb2.HealthCheckResponse.FromString(received[_PREFIX.size :])
    except (struct.error, DecodeError):
        raise HealthCheckFailed("its response is not gRPC") from None
    if is_compressed or length != len(received) - _PREFIX.size:
        raise HealthCheckFailed("its response is not gRPC")
    if message.status != health_pb2.HealthCheckResponse.SERVING:
        immediate = message.status == health_pb2.HealthCheckResponse.NOT_SERVING
        raise HealthCheckFailed(f"it returned {_name(message.status)}", immediate=immediate)


def _name(status: int) -> str:
    statuses = health_pb2.HealthCheckResponse.ServingStatus
    return statuses.Name(status) if status in statuses.values() else str(status)
