"""A tunnel gets a new connection, to the selected upstream or to another one."""

import asyncio
import socket

import pytest

from config.routes.route import Route
from foundation.errors import UpstreamError
from proxy.upstreams import dialing
from proxy.upstreams.cluster import Clusters, ClusterSelection
from proxy.upstreams.dialing import dial
from proxy.upstreams.outgoing_request import Upstream
from proxy.upstreams.upstream_errors import UpstreamErrors


def route(*urls: str) -> Route:
    return Route.model_validate({"from": "tcp+https://db.example.com:5432", "to": list(urls)})


@pytest.fixture
def dead() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"tcp://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
async def alive():
    async def serve(reader, writer):
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_dials_the_upstream(alive):
    transport = await dial(Upstream.build(route(alive)), None, socket.AF_UNSPEC, UpstreamErrors(), asyncio.Protocol())
    assert transport.get_extra_info("peername")[1] == int(alive.rpartition(":")[2])
    transport.abort()


async def test_unreachable_upstream_is_replaced_by_another(dead, alive):
    configured = route(dead, alive)
    cluster = Clusters([configured]).get(configured)
    while cluster.choose() != 1:  # the next choice is the dead one
        pass
    selection = ClusterSelection(cluster, b"")
    selection.start()
    (await dial(selection.upstream, selection, socket.AF_UNSPEC, UpstreamErrors(), asyncio.Protocol())).abort()
    assert [member.state.active for member in cluster.members] == [0, 1]
    selection.finish(200)
    assert [member.state.active for member in cluster.members] == [0, 0]


async def test_raises_upstream_error_if_none_is_left(dead, monkeypatch):
    with pytest.raises(UpstreamError, match=r"refused the connection|can't be resolved"):
        await dial(Upstream.build(route(dead)), None, socket.AF_UNSPEC, UpstreamErrors(), asyncio.Protocol())
    monkeypatch.setattr(dialing, "CONNECT_TIMEOUT", 0)
    with pytest.raises(UpstreamError, match="in time"):
        await dial(Upstream.build(route(dead)), None, socket.AF_UNSPEC, UpstreamErrors(), asyncio.Protocol())


async def test_dials_only_the_configured_address_family(alive):
    with pytest.raises(UpstreamError):
        await dial(Upstream.build(route(alive)), None, socket.AF_INET6, UpstreamErrors(), asyncio.Protocol())
