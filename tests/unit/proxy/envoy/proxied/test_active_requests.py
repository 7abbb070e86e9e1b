"""Each access log entry from Envoy is matched to its request, and no request is leaked."""

import structlog

from tests.support.eventually import eventually
from tests.unit.proxy.envoy.conftest import MakeRequest
from tests.unit.proxy.envoy.stage import Stage


async def test_odd_lines_and_unknown_numbers_do_no_harm(stage: Stage, send_request: MakeRequest) -> None:
    number, _ = await stage.begin(send_request("/in", host="open.example.com"))
    with structlog.testing.capture_logs() as payload:
        for line in ("", "a b c d e f g h", f"{number} - 200 1 2", f"{number} - x 1 2 3 - -"):
            stage.forwarded.on_access_log_line(line)
    assert [entry["event"] for entry in payload] == ["unparsable envoy access log line"] * 4
    stage.forwarded.on_access_log_line("77 - 200 1 2 3 - via_upstream")
    stage.forwarded.on_not_streaming("77")
    assert await stage.forwarded.error_page("77", "response_timeout") is None
    assert repr(stage.forwarded) == "<ActiveRequests 1>"
    stage.forwarded.on_access_log_line(f"{number} - 200 1 2 3 - via_upstream")
    stage.forwarded.on_access_log_line(f"{number} - 200 1 2 3 - via_upstream")
    assert repr(stage.forwarded) == "<ActiveRequests 0>"


async def test_envoy_exit_completes_its_requests(stage: Stage, send_request: MakeRequest) -> None:
    await stage.begin(send_request("/in", host="open.example.com"))
    stage.forwarded.on_envoy_exit()
    later, _ = await stage.begin(send_request("/in", host="open.example.com"))
    await eventually(lambda: len(stage.forwarded._requests) <= 1)
    assert list(stage.forwarded._requests) == [later], "by the next Envoy"
    stage.forwarded.complete_all()
    assert stage.forwarded.is_idle.is_set()


async def test_after_an_unasked_change_of_protocols_the_connection_is_not_used_again(stage: Stage, send_request: MakeRequest) -> None:
    number, _ = await stage.begin(send_request("/in", host="open.example.com", peer="192.0.2.7:5000"))
    await stage.forwarded.error_page(number, "status 101")
    await eventually(lambda: stage.connections.cuts)
    assert stage.connections.cuts == [{("192.0.2.7", 5000)}]
    stage.forwarded.complete_all()


async def test_disconnect_during_check_completes_request(stage: Stage, send_request: MakeRequest) -> None:
    left, _ = await stage.begin(send_request("/in", host="open.example.com"))
    stage.forwarded.on_access_log_line(f"- {left} 0 1 0 0 DC -")
    assert repr(stage.forwarded) == "<ActiveRequests 0>"
    question = send_request("/in", host="open.example.com")
    number = question.partition(b"x-gate-edge-number: ")[2].partition(b"\r\n")[0].decode()
    stage.forwarded.on_access_log_line(f"- {number} 503 15000 0 0 UAEX ext_authz_error")  # and only then the question is looked at
    await stage.send_request(question)
    assert repr(stage.forwarded) == "<ActiveRequests 0>"
    assert stage.forwarded.is_idle.is_set()
    assert repr(stage.streams) == "<OpenStreams 0 of 0 sessions>"


async def test_unchecked_completion_expires(stage: Stage) -> None:
    now = 0.0
    stage.forwarded._clock = lambda: now
    for number in range(100):
        now += 1.0
        stage.forwarded.on_access_log_line(f"- n{number} 0 1 0 0 DC -")
    assert len(stage.forwarded._completed_early) <= 30
