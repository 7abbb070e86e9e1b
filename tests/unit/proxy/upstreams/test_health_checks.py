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
from tests.support.upstream import OK, CanaryUpstream

CHECK = {"timeout": "10s", "interval": "20ms", "unhealthy_threshold": 2, "healthy_threshold": 2}
HTTP = {**CHECK, "http_health_check": {"path": "/healthz"}}
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
ERROR = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("results", "healthy"),
    [
        ("", "+"),
        ("-", "-"),  # at first one is enough
        ("+-", "+"),
        ("+--", "-"),
        ("+-+-", "+"),
        ("+--+", "-"),
        ("+--++", "+"),
        ("-+", "-"),
        ("-+-+", "-"),
        ("+!", "-"),  # the upstream itself says so
        ("+!++", "+"),
    ],
)
def test_results_in_a_row_change_what_is_known(results, healthy):
    health = HealthState(2, 2)
    changes = [health.record(success=result == "+", immediate=result == "!") for result in results]
    assert health.is_healthy is (healthy == "+")
    assert sum(changes) % 2 == (healthy == "-")


def clusters_of(*to, **keys):
    route = Route.model_validate({"from": "https://app.example.com", "to": list(to), **keys})
    clusters = Clusters([route])
    return clusters, clusters.get(route)


class Checked:
    """Checks under way; `until` waits for a state of the cluster."""

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


class Changing(CanaryUpstream):
    """An upstream whose answer may be changed while it runs."""

    def answers(self, answer):
        self._answer = answer


async def test_an_unhealthy_upstream_gets_no_traffic_until_it_is_healthy_again():
    async with Changing() as first, Changing() as second:
        with capture_logs() as logs:
            async with Checked(first.url, second.url, health_checks=[HTTP]) as checked:
                first.answers(ERROR)
                await checked.until("unhealthy", "healthy")
                assert {ClusterSelection(checked.cluster, b"").upstream.port for _ in range(6)} == {second.port}
                assert metrics.upstream_healthy.labels(first.url)._value.get() == 0
                second.answers(UNAVAILABLE)
                await checked.until("unhealthy", "unhealthy")
                with pytest.raises(NoHealthyUpstream):
                    ClusterSelection(checked.cluster, b"")
                first.answers(OK)
                await checked.until("healthy", "unhealthy")
                assert {ClusterSelection(checked.cluster, b"").upstream.port for _ in range(6)} == {first.port}
        assert {request.target for request in first.requests} == {b"/healthz"}
    told = [(each["event"], each["upstream"], each.get("reason")) for each in logs]
    assert told[:3] == [
        ("upstream unhealthy", first.url, "status 500"),
        ("upstream unhealthy", second.url, "status 503"),
        ("upstream healthy", first.url, None),
    ]


async def test_an_upstream_that_is_gone_is_unhealthy_and_its_successor_is_not():
    async with CanaryUpstream() as gone:
        pass
    async with CanaryUpstream() as there, Checked(gone.url, there.url, health_checks=[HTTP]) as checked:
        await checked.until("unhealthy", "healthy")


async def test_an_upstream_that_does_not_answer_in_time_is_unhealthy():
    async def silent(conversation):
        await conversation.head()
        await conversation.ended()

    check = {**HTTP, "timeout": "30ms"}
    async with CanaryUpstream(script=silent) as upstream, Checked(upstream.url, health_checks=[check]) as checked:
        await checked.until("unhealthy")


async def test_the_statuses_that_are_expected_and_the_host_that_is_sent():
    created = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
    http = {"path": "/h", "host": "app.internal", "expected_statuses": [{"start": 201, "end": 204}]}
    async with Changing(created) as upstream, Checked(upstream.url, health_checks=[{**CHECK, "http_health_check": http}]) as checked:
        while len(upstream.requests) < 2:
            await asyncio.sleep(0.005)
        assert checked.health == ["healthy"]
        assert upstream.requests[0].values(b"host") == [b"app.internal"]
        upstream.answers(OK)
        await checked.until("unhealthy")


@pytest.mark.parametrize(("says", "health"), [(b"+xPO--NG", "healthy"), (b"NGPO", "unhealthy"), (b"", "unhealthy")])
async def test_a_tcp_check_connects_sends_and_expects(says, health):
    sent = []

    async def script(conversation):
        sent.append(await conversation.read(4))
        await conversation.send(says)

    tcp = {"send": {"text": b"PING".hex()}, "receive": [{"text": b"PO".hex()}, {"text": b"NG".hex()}]}
    check = {**CHECK, "tcp_health_check": tcp}
    async with CanaryUpstream(script=script) as upstream, Checked(upstream.url, health_checks=[check]) as checked:
        while len(sent) < 3:
            await asyncio.sleep(0.005)
        assert sent[0] == b"PING"
        await checked.until(health)


async def test_an_upstream_is_healthy_where_all_its_checks_say_so():
    async with Changing(ERROR) as upstream, Checked(upstream.url, health_checks=[{**CHECK, "tcp_health_check": {}}, HTTP]) as checked:
        await checked.until("unhealthy")
        upstream.answers(OK)
        await checked.until("healthy")


async def test_checks_go_on_over_a_reload_and_end_with_their_upstream():
    async with Changing() as first, Changing() as second, Checked(first.url, second.url, health_checks=[HTTP]) as checked:
        first.answers(ERROR)
        await checked.until("unhealthy", "healthy")
        route = Route.model_validate({"from": "https://b.example.com", "to": [first.url], "health_checks": [HTTP]})
        after = Clusters([route], checked.clusters)
        cluster = after.get(route)
        checked.checks.update(after.members())
        assert [cluster.health(member) for member in cluster.members] == ["unhealthy"]
        seen, asked = len(second.requests), len(first.requests)
        while len(first.requests) < asked + 4:
            await asyncio.sleep(0.005)
        assert len(second.requests) <= seen + 1


def test_the_pause_between_checks_has_its_jitter():
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


async def test_answers_put_an_upstream_out():
    _, cluster = clusters_of("http://a.internal", "http://b.internal", outlier_detection={"consecutive_5xx": 2})
    with capture_logs() as logs:
        for _ in range(4):
            selection = ClusterSelection(cluster, b"")
            selection.start()
            selection.finish(502 if selection.upstream.host == "a.internal" else 200)
    assert [cluster.health(member) for member in cluster.members] == ["ejected", "healthy"]
    assert {ClusterSelection(cluster, b"").upstream.host for _ in range(4)} == {"b.internal"}
    assert [(each["event"], each["reason"]) for each in logs] == [("upstream ejected", "consecutive 5xx")]
