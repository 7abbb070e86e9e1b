"""A request that Envoy could not connect fails over to another upstream, once, as authorized."""

from typing import Any

import pytest

from foundation.errors import UpstreamError
from proxy.envoy.connect_failover import ID, ConnectFailover
from proxy.upstreams.upstream_client import CONNECT_TIMEOUT
from tests.support.asgi import Answer, chunked_receive, http_scope
from tests.unit.proxy.envoy.conftest import MakeRequest
from tests.unit.proxy.envoy.stage import Stage

TWO = "two.example.com"


async def sent(stage: Stage, *ids: bytes | None) -> Answer:
    """Send a failover request with these request ids."""
    answer = Answer()
    scope = http_scope(f"http://{TWO}/", client="") | {"client": None, "headers": [(ID, id) for id in ids if id is not None]}
    await ConnectFailover(stage.forwarded)(scope, chunked_receive(), answer.send)
    return answer


@pytest.mark.parametrize("ids", [(), (b"unknown",), (b"unknown", b"unknown")])
async def test_unknown_request_id_is_rejected(ids: tuple[bytes, ...], stage: Stage, send_request: MakeRequest) -> None:
    await stage.begin(send_request("/", host=TWO))
    assert (await sent(stage, *ids)).status == 503


async def test_request_fails_over_once_while_active(stage: Stage, send_request: MakeRequest) -> None:
    id = (await stage.send_request(send_request("/", host=TWO)))["x-request-id"]
    assert (await sent(stage, id, id)).status == 503
    assert (await sent(stage, id)).status == 502
    assert (await sent(stage, id)).status == 503
    reported = await stage.send_request(send_request("/", host=TWO))
    stage.forwarded.on_access_log_line(f"{reported['x-gate-edge-number'].decode()} - 0 5 0 0 DC -")  # type: ignore[union-attr]
    assert (await sent(stage, reported["x-request-id"])).status == 503


async def test_single_upstream_never_fails_over(stage: Stage, send_request: MakeRequest) -> None:
    reported = await stage.send_request(send_request("/in", host="open.example.com"))
    assert (await sent(stage, reported["x-request-id"])).status == 503


async def test_connect_timeout_does_not_fail_over(stage: Stage, send_request: MakeRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    reported = await stage.send_request(send_request("/", host=TWO))
    forwarded = stage.forwarded._requests[reported["x-gate-edge-number"].decode()]  # type: ignore[union-attr]
    first, requests_seen = forwarded._outgoing.upstream.host, []

    async def refuses(outgoing: Any, *about: object) -> None:
        requests_seen.append(outgoing.upstream.host)
        raise UpstreamError("nobody is there")

    monkeypatch.setattr(forwarded._plane, "forward_request", refuses)
    forwarded._started_at -= CONNECT_TIMEOUT
    assert (await sent(stage, reported["x-request-id"])).status == 502
    assert requests_seen == [{"127.0.0.1": "localhost", "localhost": "127.0.0.1"}[first]]
