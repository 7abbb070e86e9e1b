"""Health checks of upstreams (`health_checks`), which run in the background."""

import asyncio
import random
from collections.abc import Iterable

import structlog

from config.routes.upstreams.upstream_health import HealthCheck, HttpHealthCheck, TcpHealthCheck
from foundation.connection_errors import classify_failure
from foundation.errors import UpstreamError
from foundation.tasks import spawn
from foundation.telemetry import metrics
from proxy.upstreams.cluster import ClusterMember
from proxy.upstreams.health_state import HealthCheckFailed, HealthState
from proxy.upstreams.outgoing_request import OutgoingRequest, Upstream
from proxy.upstreams.upstream_client import UpstreamClient
from proxy.upstreams.upstream_exchange import StaleConnection

log = structlog.get_logger(__name__)

_MAX_RESPONSE_BYTES = 64 * 1024  # of an HTTP response, of which only the status counts, or of a TCP greeting
_UNAVAILABLE = 503


class HealthChecks:
    """Health checker of all clusters. `update` sets the members to check; checks of unchanged members continue."""

    def __init__(self, client: UpstreamClient, rng: random.Random | None = None):
        self._client = client
        self._rng = rng or random.Random()  # noqa: S311 - spreads the checks
        self._running: dict[ClusterMember, list[asyncio.Task[None]]] = {}

    def update(self, members: Iterable[ClusterMember]) -> None:
        checked = {member for member in members if member.checks}
        for member in self._running.keys() - checked:
            self._stop(member)
        for member in checked - self._running.keys():
            metrics.upstream_healthy.labels(member.name).set(1)
            self._running[member] = [
                spawn(self._run(member, check, number), name=f"health of {member.name}") for number, check in enumerate(member.checks)
            ]

    def close(self) -> None:
        self.update(())

    def _stop(self, member: ClusterMember) -> None:
        for task in self._running.pop(member):
            task.cancel()
        if not any(other.name == member.name for other in self._running):
            metrics.upstream_healthy.remove(member.name)

    async def _run(self, member: ClusterMember, check: HealthCheck, number: int) -> None:
        health = HealthState(check.unhealthy_threshold, check.healthy_threshold)
        await asyncio.sleep(self._rng.random() * check.initial_jitter.total_seconds())
        while True:
            reason, immediate = await self._check(member, check)
            if health.record(success=not reason, immediate=immediate):
                _publish(member, number, health.is_healthy, reason)
            await asyncio.sleep(self.pause(check, is_healthy=health.is_healthy))

    def pause(self, check: HealthCheck, *, is_healthy: bool) -> float:
        interval = check.interval if is_healthy or check.unhealthy_interval is None else check.unhealthy_interval
        jitter = check.interval_jitter.total_seconds() + interval.total_seconds() * check.interval_jitter_percent / 100
        return interval.total_seconds() + self._rng.random() * jitter

    async def _check(self, member: ClusterMember, check: HealthCheck) -> tuple[str, bool]:
        """Return why a check failed ("" if it passed), and whether that makes the upstream unhealthy immediately."""
        try:
            async with asyncio.timeout(check.timeout.total_seconds()):
                if check.http_health_check is not None:
                    await self._check_http(member.upstream, check.http_health_check)
                elif check.tcp_health_check is not None:
                    await _check_tcp(member.upstream, check.tcp_health_check)
                elif check.grpc_health_check is not None:
                    from proxy.upstreams.grpc_health import check_grpc  # 2 MiB of protobuf

                    await check_grpc(member.upstream, member.http2, check.grpc_health_check, check.timeout.total_seconds())
        except TimeoutError:
            return "timeout", False
        except HealthCheckFailed as error:
            return str(error), error.immediate
        except UpstreamError as error:
            return str(error), False
        except (OSError, asyncio.IncompleteReadError) as error:
            return str(classify_failure(error)), False
        return "", False

    async def _check_http(self, upstream: Upstream, check: HttpHealthCheck) -> None:
        host = check.host or upstream.url.raw_authority
        headers = [(b"host", host.encode("ascii")), (b"user-agent", b"gate-health-check"), (b"accept", b"*/*")]
        request = OutgoingRequest(upstream, "GET", check.path.encode("ascii"), headers)
        try:
            status = await self._status(request, force_new=False)
        except StaleConnection:
            status = await self._status(request, force_new=True)
        expected = [(span.start, span.end) for span in check.expected_statuses] or [(200, 201)]
        if status == _UNAVAILABLE or not any(start <= status < end for start, end in expected):
            raise HealthCheckFailed(f"status {status}", immediate=status == _UNAVAILABLE)

    async def _status(self, request: OutgoingRequest, *, force_new: bool) -> int:
        exchange = await self._client.open(request, force_new=force_new)
        try:
            status, _ = await exchange.read_response()
            received, more_body = 0, True
            while more_body and received < _MAX_RESPONSE_BYTES:  # so that the connection can be reused
                chunk, more_body = await exchange.read()
                received += len(chunk)
            return status
        finally:
            exchange.close()


async def _check_tcp(upstream: Upstream, check: TcpHealthCheck) -> None:
    name = (upstream.server_hostname or upstream.host) if upstream.is_ssl() else None
    context = upstream.ssl if upstream.is_ssl() else None
    reader, writer = await asyncio.open_connection(upstream.host, upstream.port, ssl=context, server_hostname=name)
    try:
        if check.send is not None:
            writer.write(check.send.text)
        received, offset = b"", 0
        for part in check.receive:
            while (position := received.find(part.text, offset)) < 0:
                if len(received) > _MAX_RESPONSE_BYTES or not (chunk := await reader.read(_MAX_RESPONSE_BYTES)):
                    raise HealthCheckFailed("unexpected response")
                received += chunk
            offset = position + len(part.text)
    finally:
        writer.transport.abort()


def _publish(member: ClusterMember, number: int, is_healthy: bool, reason: str) -> None:
    state = member.state
    was_healthy = state.is_healthy
    state.failing = state.failing - {number} if is_healthy else state.failing | {number}
    if state.is_healthy == was_healthy:
        return
    metrics.upstream_healthy.labels(member.name).set(int(state.is_healthy))
    if state.is_healthy:
        log.info("upstream healthy", upstream=member.name)
    else:
        log.warning("upstream unhealthy", upstream=member.name, reason=reason)
