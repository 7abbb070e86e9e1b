"""What Envoy could not connect to its upstream gate carries, to another one: that request, once, and as it was judged."""

from typing import Any

import pytest

from foundation.errors import UpstreamError
from proxy.envoy.connect_failover import ID, ConnectFailover
from proxy.upstreams.upstream_client import CONNECT_TIMEOUT
from tests.support.asgi import Answer, body_of, http_scope
from tests.unit.proxy.envoy.conftest import Ask
from tests.unit.proxy.envoy.stage import Stage

TWO = "two.example.com"


async def sent(stage: Stage, *ids: bytes | None) -> Answer:
    """What Envoy sends on, with these ids of requests."""
    answer = Answer()
    scope = http_scope(f"http://{TWO}/", client="") | {"client": None, "headers": [(ID, id) for id in ids if id is not None]}
    await ConnectFailover(stage.carried)(scope, body_of(), answer.send)
    return answer


@pytest.mark.parametrize("ids", [(), (b"unknown",), (b"unknown", b"unknown")])
async def test_unknown_request_id_is_rejected(ids: tuple[bytes, ...], stage: Stage, ask: Ask) -> None:
    await stage.begin(ask("/", host=TWO))
    assert (await sent(stage, *ids)).status == 503


async def test_request_fails_over_once_while_active(stage: Stage, ask: Ask) -> None:
    id = (await stage.ask(ask("/", host=TWO)))["x-request-id"]
    assert (await sent(stage, id, id)).status == 503
    assert (await sent(stage, id)).status == 502
    assert (await sent(stage, id)).status == 503
    told = await stage.ask(ask("/", host=TWO))
    stage.carried.on_access_log_line(f"{told['x-gate-edge-number'].decode()} - 0 5 0 0 DC -")  # type: ignore[union-attr]
    assert (await sent(stage, told["x-request-id"])).status == 503


async def test_single_upstream_never_fails_over(stage: Stage, ask: Ask) -> None:
    told = await stage.ask(ask("/in", host="open.example.com"))
    assert (await sent(stage, told["x-request-id"])).status == 503


async def test_connect_timeout_does_not_fail_over(stage: Stage, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    told = await stage.ask(ask("/", host=TWO))
    carried = stage.carried._requests[told["x-gate-edge-number"].decode()]  # type: ignore[union-attr]
    first, asked = carried._outgoing.upstream.host, []

    async def refuses(outgoing: Any, *about: object) -> None:
        asked.append(outgoing.upstream.host)
        raise UpstreamError("nobody is there")

    monkeypatch.setattr(carried._plane, "forward_request", refuses)
    carried._started_at -= CONNECT_TIMEOUT
    assert (await sent(stage, told["x-request-id"])).status == 502
    assert asked == [{"127.0.0.1": "localhost", "localhost": "127.0.0.1"}[first]]
