from collections import Counter

import pytest

from config.routes.route import Route
from foundation.errors import UpstreamError
from proxy.upstreams.cluster import Clusters, ClusterSelection, NoHealthyUpstream
from proxy.upstreams.outgoing_request import OutgoingRequest
from proxy.upstreams.upstream_client import UpstreamClient
from tests.support.upstream import OK, RawUpstream


def make_route(*to, **keys):
    return Route.model_validate({"from": "https://app.example.com", "to": list(to), **keys})


def cluster_of(*to, **keys):
    route = make_route(*to, **keys)
    return Clusters([route]).get(route)


NAMES = ("http://a.internal", "http://b.internal", "http://c.internal")


def request_for(selection, host=b"a"):
    return OutgoingRequest(selection.upstream, "GET", b"/", [(b"host", host), (b"x", b"1")], selection=selection)


def test_single_upstream_needs_no_cluster():
    assert cluster_of("http://a.internal") is None


def test_active_requests_are_counted_per_upstream():
    cluster = cluster_of(*NAMES)
    selections = [ClusterSelection(cluster, b"") for _ in range(4)]
    for selection in selections:
        selection.start()
    assert [member.state.active for member in cluster.members] == [2, 1, 1]
    for selection in selections:
        selection.finish(200)
    assert [member.state.active for member in cluster.members] == [0, 0, 0]


def test_selects_the_idlest_upstream():
    cluster = cluster_of(*NAMES[:2], lb_policy="LEAST_REQUEST")
    first = ClusterSelection(cluster, b"")
    first.start()
    assert ClusterSelection(cluster, b"").upstream is not first.upstream


def test_hash_key_is_sticky():
    cluster = cluster_of(*NAMES, lb_policy="MAGLEV")
    assert cluster.is_sticky
    assert not cluster_of(*NAMES).is_sticky
    for key in (b"session-1", b"session-2", b"127.0.0.1"):
        assert len({cluster.choose(key) for _ in range(5)}) == 1
    assert len({cluster.choose(b"session-%d" % number) for number in range(100)}) == 3


def test_retry_tries_each_upstream_once_with_its_host():
    cluster = cluster_of(*NAMES)
    selection = ClusterSelection(cluster, b"", host_for_ip_members=b"incoming")
    selection.start()
    request, hosts = request_for(selection), [selection.hostname]
    while selection.move_to_next_member(request):
        hosts.append(request.headers[0][1])
        assert request.upstream is selection.upstream
        assert request.headers[1:] == [(b"x", b"1")]
    assert sorted(hosts) == [b"a.internal", b"b.internal", b"c.internal"]
    assert sum(member.state.active for member in cluster.members) == 1


def test_ip_address_gets_the_incoming_host():
    selection = ClusterSelection(cluster_of("http://a.internal", "http://10.0.0.1"), b"", host_for_ip_members=b"incoming")
    request = request_for(selection, b"a.internal")
    assert selection.move_to_next_member(request)
    assert request.headers[0] == (b"host", b"incoming")


def test_fixed_host_is_preserved_on_retry():
    selection = ClusterSelection(cluster_of(*NAMES), b"")
    request = request_for(selection, b"fixed")
    assert selection.move_to_next_member(request)
    assert request.headers == [(b"host", b"fixed"), (b"x", b"1")]


def test_request_is_attempted_at_three_upstreams():
    selection = ClusterSelection(cluster_of(*[f"http://u{number}.internal" for number in range(9)]), b"")
    attempts = 1
    while selection.move_to_next_member(request_for(selection)):
        attempts += 1
    assert attempts == 3


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_connection_refusal_is_retried_at_another_upstream(method):
    async with RawUpstream() as gone:
        pass
    client = UpstreamClient()
    async with RawUpstream(OK) as canary:
        cluster = cluster_of(gone.url, canary.url)
        for _ in range(4):
            selection = ClusterSelection(cluster, b"", host_for_ip_members=b"incoming")
            request = OutgoingRequest(selection.upstream, method, b"/", [(b"host", b"incoming")], selection=selection)
            exchange = await client.open(request)
            assert (await exchange.read_response())[0] == 200
            exchange.close()
        assert [each.headers for each in canary.requests] == [[(b"host", b"incoming")]] * 4
    selection = ClusterSelection(cluster_of(gone.url, gone.url.replace("127.0.0.1", "localhost")), b"")
    with pytest.raises(UpstreamError, match=r"refused the connection|can't be resolved"):
        await client.open(request_for(selection))
    await client.close()


def test_state_survives_reload():
    routes = make_route(*NAMES), make_route(*NAMES[:2], prefix="/x")
    before = Clusters(routes)
    first, other = map(before.get, routes)
    routes = (
        make_route(*NAMES, prefix="/y"),
        make_route(*NAMES, "http://d.internal"),
        make_route("http://a.internal,2", "http://b.internal,1"),
    )
    after = Clusters(routes, before)
    same, more, weighted = map(after.get, routes)
    assert same is first
    assert other is not more
    assert more.members[:3] == first.members
    assert weighted.members == first.members[:2]
    route = make_route(*NAMES[:2])
    assert Clusters([route], after).get(route) is not other  # its state is gone two configurations later


def test_no_healthy_upstream_is_a_503():
    cluster = cluster_of(*NAMES[:2])
    with pytest.raises(NoHealthyUpstream) as error:
        cluster.choose(b"", [0, 1])
    assert error.value.status == 503


def test_round_robin_is_exact_over_a_cycle():
    cluster = cluster_of("http://a.internal,3", "http://b.internal,1")
    assert Counter(cluster.choose() for _ in range(40)) == {0: 30, 1: 10}
