"""Statistics of routes and their metrics."""

from collections import Counter
from pathlib import Path

import pytest

from authorize.policy.route_table import RouteTable
from proxy.forwarding.forward_result import TerminationReason
from proxy.planes.stream_tracking import record_termination
from proxy.route_forwarding import ForwardingTable
from proxy.upstreams.route_statistics import BUCKETS, ActiveRouteStatistics, RouteStatistics, route_label, stat_name
from proxy.upstreams.upstream_client import UpstreamClient
from tests.support.options import make_options
from tests.support.upstream import OK, RawUpstream
from tests.unit.proxy.upstreams.test_upstream_client import fetch, make_request

ROUTES = ({"name": "one"}, {"name": "two"}, {})


def state(directory: Path, *routes: dict, previous: ForwardingTable | None = None, **settings) -> ForwardingTable:
    policy = [
        {"from": f"https://app{number}.example.com", "to": "http://127.0.0.1:1", **route} for number, route in enumerate(routes or ROUTES)
    ]
    options = make_options(directory, policy=policy, metrics_address="127.0.0.1:0", **settings)
    return ForwardingTable(RouteTable.build(options.policy, client_ca=None).routes(), options, previous)


def lines(statistics: RouteStatistics) -> set[str]:
    reported = ActiveRouteStatistics()
    reported.activate([statistics])
    return {line for family in reported.families("gate").values() for line in family.lines}


def test_request_is_counted_by_status_and_duration() -> None:
    statistics = RouteStatistics("app")
    for status, seconds in ((200, 0.003), (204, 0.3), (503, 0.1), (101, 9000.0), (None, 1.0)):
        statistics.start()
        statistics.finish(status, seconds)
    labels = 'service="gate",envoy_cluster_name="app"'
    assert lines(statistics) >= {
        f"envoy_cluster_upstream_rq_total{{{labels}}} 5",
        f"envoy_cluster_upstream_rq_active{{{labels}}} 0",
        f'envoy_cluster_upstream_rq{{{labels},envoy_response_code="204"}} 1',
        f'envoy_cluster_upstream_rq_xx{{{labels},envoy_response_code_class="2"}} 2',
        f'envoy_cluster_upstream_rq_time_bucket{{{labels},le="5"}} 1',
        f'envoy_cluster_upstream_rq_time_bucket{{{labels},le="100"}} 2',
        f'envoy_cluster_upstream_rq_time_bucket{{{labels},le="+Inf"}} 3',
        f"envoy_cluster_upstream_rq_time_sum{{{labels}}} 403.0",
        f"envoy_cluster_upstream_rq_time_count{{{labels}}} 3",
    }


@pytest.mark.parametrize("milliseconds", BUCKETS)
def test_bucket_includes_its_upper_bound(milliseconds: float) -> None:
    statistics = RouteStatistics("app")
    statistics.start()
    statistics.finish(200, milliseconds / 1000)
    assert statistics.buckets.index(1) == BUCKETS.index(milliseconds)


@pytest.mark.parametrize(
    ("reason", "counts"),
    [
        (TerminationReason.COMPLETE, (0, 0, 0)),
        (TerminationReason.TIMEOUT, (1, 0, 0)),
        (TerminationReason.IDLE_TIMEOUT, (1, 0, 0)),
        (TerminationReason.UPSTREAM_RESET, (0, 1, 0)),
        (TerminationReason.CLIENT_DISCONNECTED, (0, 0, 1)),
        (TerminationReason.ACCESS_ENDED, (0, 0, 1)),
    ],
)
def test_termination_reason_is_counted(reason: TerminationReason, counts: tuple[int, int, int]) -> None:
    statistics = RouteStatistics("app")
    record_termination(statistics, reason)
    assert (statistics.timeouts, statistics.received_resets, statistics.sent_resets) == counts


def test_ejections_of_a_cluster_are_reported() -> None:
    class Watched:
        ejections = Counter({"consecutive 5xx": 2, "failures": 1})

        def available(self) -> int:
            return 1

        def ejected(self) -> int:
            return 2

    statistics = RouteStatistics("app")
    statistics.upstreams, statistics.cluster = 3, Watched()
    reported = {line.partition("{")[0].removeprefix("envoy_cluster_"): line.rpartition(" ")[2] for line in lines(statistics)}
    assert (reported["membership_total"], reported["membership_healthy"]) == ("3", "1")
    assert {name.removeprefix("outlier_detection_ejections_"): value for name, value in reported.items() if "ejections" in name} == {
        "active": "2",
        "enforced_total": "3",
        "enforced_consecutive_5xx": "2",
        "enforced_consecutive_gateway_failure": "0",
        "enforced_success_rate": "0",
        "enforced_failure_percentage": "1",
    }


def test_route_name_is_escaped_in_labels() -> None:
    assert 'envoy_cluster_upstream_rq_total{service="gate",envoy_cluster_name="a\\"} 1\\n\\\\"} 0' in lines(RouteStatistics('a"} 1\n\\'))
    assert stat_name("a.b").replace("-", "").isalnum()


def test_reports_nothing_without_routes() -> None:
    assert ActiveRouteStatistics().families("gate") == {}


def test_routes_have_their_name_or_id(tmp_path: Path) -> None:
    table = state(tmp_path)
    assert list(table.statistics) == ["one", "two", route_label(table._options.policy[2])]
    assert route_label(table._options.policy[2]) == table._options.policy[2].id


def test_routes_of_one_name_count_together(tmp_path: Path) -> None:
    table = state(tmp_path, {"name": "one"}, {"name": "one"})
    assert len(table.activate_statistics()) == 1


def test_reloads_drop_removed_routes_and_preserve_others(tmp_path: Path) -> None:
    table = state(tmp_path, {"name": "stays"}, {"name": "0"})
    active = ActiveRouteStatistics()
    stays = table.statistics["stays"]
    for number in range(1, 1001):
        table = state(tmp_path, {"name": "stays"}, {"name": str(number)}, previous=table)
        active.activate(table.activate_statistics())
    assert list(table.statistics) == ["stays", "1000"]
    assert table.statistics["stays"] is stays
    assert active.labels() == {stat_name("stays"): "stays", stat_name("1000"): "1000"}


@pytest.mark.parametrize(
    ("routes", "setting", "is_on"), [(500, None, True), (501, None, False), (501, True, True), (2, False, False), (2, None, True)]
)
def test_many_routes_are_measured_only_if_configured(tmp_path: Path, routes: int, setting: bool | None, is_on: bool) -> None:
    table = state(tmp_path, *({"name": str(number)} for number in range(routes)), metrics_per_route=setting)
    assert len(table.activate_statistics()) == (routes if is_on else 0)


def test_no_route_metrics_without_listener(tmp_path: Path) -> None:
    options = make_options(tmp_path, policy=[{"from": "https://app.example.com", "to": "http://127.0.0.1:1"}], metrics_per_route=True)
    assert not options.has_route_metrics


def test_disabled_route_metrics_reset_statistics(tmp_path: Path) -> None:
    before = state(tmp_path)
    after = state(tmp_path, metrics_per_route=False, previous=before)
    again = state(tmp_path, previous=after)
    assert (len(before.statistics), len(after.statistics), len(again.statistics)) == (3, 0, 3)


async def test_bytes_count_per_request_and_connections_per_opener() -> None:
    client, first, second = UpstreamClient(), RouteStatistics("first"), RouteStatistics("second")
    async with RawUpstream() as canary:
        for statistics in (first, second, second):
            await fetch(client, make_request(canary.url, statistics=statistics))
        heads = [len(request.head) for request in canary.requests]
        assert (first.upstream_bytes_sent, second.upstream_bytes_sent) == (heads[0], heads[1] + heads[2])
        assert (first.upstream_bytes_received, second.upstream_bytes_received) == (len(OK), 2 * len(OK))
        assert (first.connections, first.open_connections, second.connections) == (1, 1, 0)
        await client.close()
    assert (first.open_connections, second.open_connections) == (0, 0)
