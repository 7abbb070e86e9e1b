import asyncio
import random

import pytest
from structlog.testing import capture_logs

from config.routes.route import Route
from foundation.telemetry import metrics
from proxy.upstreams.cluster import Clusters, ClusterSelection, NoHealthyUpstream
from proxy.upstreams.health_checks import HealthChecks
from proxy.upstreams.health_state import HealthState
from proxy.upstreams.upstream_client import UpstreamClient
from tests.support.eventually import eventually
from tests.support.upstream import OK, RawUpstream

CHECK = {"timeout": "10s", "interval": "20ms", "unhealthy_threshold": 2, "healthy_threshold": 2}
HTTP = {**CHECK, "http_health_check": {"path": "/healthz"}}
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
ERROR = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("results", "healthy"),
    [
        ("", "+"),
        ("-", "-"),  # the first result needs no threshold
        ("+-", "+"),
        ("+--", "-"),
        ("+-+-", "+"),
        ("+--+", "-"),
        ("+--++", "+"),
        ("-+", "-"),
        ("-+-+", "-"),
        ("+!", "-"),  # reported by the upstream itself
        ("+!++", "+"),
    ],
)
def test_consecutive_results_change_health(results, healthy):
    health = HealthState(2, 2)
    changes = [health.record(success=result == "+", immediate=result == "!") for result in results]
    assert health.is_healthy is (healthy == "+")
    assert sum(changes) % 2 == (healthy == "-")


def clusters_of(*to, **keys):
    route = Route.model_validate({"from": "https://app.example.com", "to": list(to), **keys})
    clusters = Clusters([route])
    return clusters, clusters.get(route)


class Checked:
    """Running checks of a cluster; `until` waits for a state of its members."""

    def __init__(self, *to, **keys):
        self.clusters, self.cluster = clusters_of(*to, **keys)
        self.client = UpstreamClient()
        self.checks = HealthChecks(self.client)

    async def __aenter__(self):
        self.checks.update(self.clusters.members())
        return self

    async def __aexit__(self, *_):
        self.checks.close()
        await self.client.close()

    @property
    def health(self):
        return [self.cluster.health(member) for member in self.cluster.members]

    async def until(self, *health):
        await eventually(lambda: self.health == list(health))


class ChangingUpstream(RawUpstream):
    """Upstream whose response can change while it runs."""

    def set_response(self, answer):
        self._answer = answer


async def test_unhealthy_upstream_gets_no_requests():
    async with ChangingUpstream() as first, ChangingUpstream() as second:
        with capture_logs() as logs:
            async with Checked(first.url, second.url, health_checks=[HTTP]) as checked:
                first.set_response(ERROR)
                await checked.until("unhealthy", "healthy")
                assert {ClusterSelection(checked.cluster, b"").upstream.port for _ in range(6)} == {second.port}
                assert metrics.upstream_healthy.labels(first.url)._value.get() == 0
                second.set_response(UNAVAILABLE)
                await checked.until("unhealthy", "unhealthy")
                with pytest.raises(NoHealthyUpstream):
                    ClusterSelection(checked.cluster, b"")
                first.set_response(OK)
                await checked.until("healthy", "unhealthy")
                assert {ClusterSelection(checked.cluster, b"").upstream.port for _ in range(6)} == {first.port}
        assert {request.target for request in first.requests} == {b"/healthz"}
    events = [(each["event"], each["upstream"], each.get("reason")) for each in logs]
    assert events[:3] == [
        ("upstream unhealthy", first.url, "status 500"),
        ("upstream unhealthy", second.url, "status 503"),
        ("upstream healthy", first.url, None),
    ]


async def test_unreachable_upstream_is_unhealthy():
    async with RawUpstream() as gone:
        pass
    async with RawUpstream() as there, Checked(gone.url, there.url, health_checks=[HTTP]) as checked:
        await checked.until("unhealthy", "healthy")


async def test_slow_health_check_is_unhealthy():
    async def silent(conversation):
        await conversation.head()
        await conversation.ended()

    check = {**HTTP, "timeout": "30ms"}
    async with RawUpstream(script=silent) as upstream, Checked(upstream.url, health_checks=[check]) as checked:
        await checked.until("unhealthy")


async def test_expected_statuses_and_host_of_http_check():
    created = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
    http = {"path": "/h", "host": "app.internal", "expected_statuses": [{"start": 201, "end": 204}]}
    async with (
        ChangingUpstream(created) as upstream,
        Checked(upstream.url, health_checks=[{**CHECK, "http_health_check": http}]) as checked,
    ):
        while len(upstream.requests) < 2:
            await asyncio.sleep(0.005)
        assert checked.health == ["healthy"]
        assert upstream.requests[0].values(b"host") == [b"app.internal"]
        upstream.set_response(OK)
        await checked.until("unhealthy")


@pytest.mark.parametrize(("reply", "health"), [(b"+xPO--NG", "healthy"), (b"NGPO", "unhealthy"), (b"", "unhealthy")])
async def test_tcp_check_sends_and_expects_bytes(reply, health):
    sent = []

    async def script(conversation):
        sent.append(await conversation.read(4))
        await conversation.send(reply)

    tcp = {"send": {"text": b"PING".hex()}, "receive": [{"text": b"PO".hex()}, {"text": b"NG".hex()}]}
    check = {**CHECK, "tcp_health_check": tcp}
    async with RawUpstream(script=script) as upstream, Checked(upstream.url, health_checks=[check]) as checked:
        while len(sent) < 3:
            await asyncio.sleep(0.005)
        assert sent[0] == b"PING"
        await checked.until(health)


async def test_upstream_is_healthy_if_all_checks_pass():
    async with (
        ChangingUpstream(ERROR) as upstream,
        Checked(upstream.url, health_checks=[{**CHECK, "tcp_health_check": {}}, HTTP]) as checked,
    ):
        await checked.until("unhealthy")
        upstream.set_response(OK)
        await checked.until("healthy")


async def test_checks_continue_across_reloads():
    async with ChangingUpstream() as first, ChangingUpstream() as second, Checked(first.url, second.url, health_checks=[HTTP]) as checked:
        first.set_response(ERROR)
        await checked.until("unhealthy", "healthy")
        route = Route.model_validate({"from": "https://b.example.com", "to": [first.url], "health_checks": [HTTP]})
        after = Clusters([route], checked.clusters)
        cluster = after.get(route)
        checked.checks.update(after.members())
        assert [cluster.health(member) for member in cluster.members] == ["unhealthy"]
        second_count, first_count = len(second.requests), len(first.requests)
        while len(first.requests) < first_count + 4:
            await asyncio.sleep(0.005)
        assert len(second.requests) <= second_count + 1


def test_check_interval_has_jitter():
    route = Route.model_validate(
        {
            "from": "https://a.example.com",
            "to": "http://u",
            "health_checks": [
                {**HTTP, "interval": "10s", "interval_jitter": "2s", "interval_jitter_percent": 50, "unhealthy_interval": "1s"}
            ],
        }
    )
    checks = HealthChecks(UpstreamClient(), random.Random(1))
    pauses = [checks.pause(route.health_checks[0], is_healthy=True) for _ in range(200)]
    assert 10 <= min(pauses) < 11
    assert 16 < max(pauses) <= 17
    assert 1 <= checks.pause(route.health_checks[0], is_healthy=False) <= 3.5


async def test_consecutive_errors_eject_upstream():
    _, cluster = clusters_of("http://a.internal", "http://b.internal", outlier_detection={"consecutive_5xx": 2})
    with capture_logs() as logs:
        for _ in range(4):
            selection = ClusterSelection(cluster, b"")
            selection.start()
            selection.finish(502 if selection.upstream.host == "a.internal" else 200)
    assert [cluster.health(member) for member in cluster.members] == ["ejected", "healthy"]
    assert {ClusterSelection(cluster, b"").upstream.host for _ in range(4)} == {"b.internal"}
    assert [(each["event"], each["reason"]) for each in logs] == [("upstream ejected", "consecutive 5xx")]
