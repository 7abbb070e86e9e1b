"""Envoy's words about what it carries find their request, and none is forgotten."""

import structlog

from tests.support.eventually import eventually
from tests.unit.proxy.envoy.conftest import Ask
from tests.unit.proxy.envoy.stage import Stage


async def test_odd_lines_and_unknown_numbers_do_no_harm(stage: Stage, ask: Ask) -> None:
    number, _ = await stage.begin(ask("/in", host="open.example.com"))
    with structlog.testing.capture_logs() as said:
        for line in ("", "a b c d e f g h", f"{number} - 200 1 2", f"{number} - x 1 2 3 - -"):
            stage.carried.on_access_log_line(line)
    assert [entry["event"] for entry in said] == ["unparsable envoy access log line"] * 4
    stage.carried.on_access_log_line("77 - 200 1 2 3 - via_upstream")
    stage.carried.on_not_streaming("77")
    assert await stage.carried.error_page("77", "response_timeout") is None
    assert repr(stage.carried) == "<ActiveRequests 1>"
    stage.carried.on_access_log_line(f"{number} - 200 1 2 3 - via_upstream")
    stage.carried.on_access_log_line(f"{number} - 200 1 2 3 - via_upstream")
    assert repr(stage.carried) == "<ActiveRequests 0>"


async def test_envoy_exit_completes_its_requests(stage: Stage, ask: Ask) -> None:
    await stage.begin(ask("/in", host="open.example.com"))
    stage.carried.on_envoy_exit()
    later, _ = await stage.begin(ask("/in", host="open.example.com"))
    await eventually(lambda: len(stage.carried._requests) <= 1)
    assert list(stage.carried._requests) == [later], "by the next Envoy"
    stage.carried.complete_all()
    assert stage.carried.is_idle.is_set()


async def test_after_an_unasked_change_of_protocols_the_connection_is_not_used_again(stage: Stage, ask: Ask) -> None:
    number, _ = await stage.begin(ask("/in", host="open.example.com", peer="192.0.2.7:5000"))
    await stage.carried.error_page(number, "status 101")
    await eventually(lambda: stage.connections.cuts)
    assert stage.connections.cuts == [{("192.0.2.7", 5000)}]
    stage.carried.complete_all()


async def test_disconnect_during_check_completes_request(stage: Stage, ask: Ask) -> None:
    left, _ = await stage.begin(ask("/in", host="open.example.com"))
    stage.carried.on_access_log_line(f"- {left} 0 1 0 0 DC -")
    assert repr(stage.carried) == "<ActiveRequests 0>"
    question = ask("/in", host="open.example.com")
    number = question.partition(b"x-gate-edge-number: ")[2].partition(b"\r\n")[0].decode()
    stage.carried.on_access_log_line(f"- {number} 503 15000 0 0 UAEX ext_authz_error")  # and only then the question is looked at
    await stage.ask(question)
    assert repr(stage.carried) == "<ActiveRequests 0>"
    assert stage.carried.is_idle.is_set()
    assert repr(stage.streams) == "<OpenStreams 0 of 0 sessions>"


async def test_unchecked_completion_expires(stage: Stage) -> None:
    now = 0.0
    stage.carried._clock = lambda: now
    for number in range(100):
        now += 1.0
        stage.carried.on_access_log_line(f"- n{number} 0 1 0 0 DC -")
    assert len(stage.carried._completed_early) <= 30
