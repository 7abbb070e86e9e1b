"""Requests that Envoy forwards are answered, reset and counted like those that gate forwards."""

from typing import Any

import pytest

from proxy.envoy.proxied.proxied_request import RequestSummary
from proxy.forwarding.forward_result import TerminationReason
from proxy.observe import request_recorder
from tests.unit.proxy.envoy.conftest import MakeRequest
from tests.unit.proxy.envoy.stage import Stage


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    payload: list[dict[str, Any]] = []
    monkeypatch.setattr(request_recorder, "log_access_lazy", lambda level, reported: payload.append(reported()))
    return payload


@pytest.mark.parametrize(
    ("details", "status", "reports"),
    [
        ("upstream_reset_before_response_started{connection_failure}", 502, b"be reached."),
        ("response_timeout", 504, b"did not answer in time"),
        ("cluster_not_found", 502, b"be reached."),
        ("status 999", 502, b""),
        ("status 101", 502, b""),
    ],
)
async def test_upstream_error_has_gate_message(details: str, status: int, reports: bytes, stage: Stage, send_request: MakeRequest) -> None:
    number, _ = await stage.begin(send_request("/in", ("accept", "text/html"), host="open.example.com"))
    page = await stage.forwarded.error_page(number, details)
    assert page is not None
    assert page.status == status
    assert reports in page.body
    stage.forwarded.on_access_log_line(f"{number} - {status} 5 0 0 UF {details}")
    assert stage.forwarded.is_idle.is_set()


async def test_revocation_resets_connection(stage: Stage, send_request: MakeRequest, lines: list[dict[str, Any]]) -> None:
    number, stream = await stage.begin(send_request("/", stage.cookie("app.example.com"), peer="192.0.2.7:5000", direct="10.0.0.1:77"))
    stream.revoke()
    stream.revoke()  # the session, and then its policy
    assert await stage.cuts() == [{("10.0.0.1", 77)}]
    stage.forwarded.on_access_log_line(f"{number} - 200 1234 10 0 DC downstream_remote_disconnect")
    assert repr(stage.streams) == "<OpenStreams 0 of 0 sessions>"
    assert stage.forwarded.is_idle.is_set()
    assert (lines[0]["ending"], lines[0]["problem"], lines[0]["status"]) == ("access_ended", "access_ended", 200)


async def test_simultaneous_cancellations_are_reset_together(stage: Stage, send_request: MakeRequest) -> None:
    streams = [(await stage.begin(send_request("/", stage.cookie("app.example.com"), peer=f"192.0.2.7:{port}")))[1] for port in (1, 2)]
    for stream in streams:
        stream.revoke()
    assert await stage.cuts() == [{("192.0.2.7", 1), ("192.0.2.7", 2)}]


@pytest.fixture
def counted(stage: Stage) -> list[Any]:
    found: list[Any] = []
    stage.ext_authz._service().request_counter = lambda *facts: found.append(facts)  # type: ignore[assignment]
    return found


async def test_counts_completed_request(stage: Stage, send_request: MakeRequest, lines: list[dict[str, Any]], counted: list[Any]) -> None:
    number, _ = await stage.begin(send_request("/in", host="open.example.com"))
    assert counted == []
    assert not stage.forwarded.is_idle.is_set()
    stage.forwarded.on_access_log_line(f"{number} - 404 12 345 6 - via_upstream")
    assert counted == [(b"open.example.com", b"GET", 404, 0.012, 6, 345)]
    line = lines[0]
    assert (line["status"], line["bytes_sent"], line["ending"], line["duration_ms"]) == (404, 345, "complete", 12.0)
    assert line["decision_ms"] >= 0
    assert "problem" not in line


@pytest.mark.parametrize(
    ("flags", "ending"),
    [
        ("-", TerminationReason.COMPLETE),
        ("DC", TerminationReason.CLIENT_DISCONNECTED),
        ("UT", TerminationReason.TIMEOUT),
        ("SI", TerminationReason.IDLE_TIMEOUT),
        ("UC", TerminationReason.UPSTREAM_RESET),
        ("UPE,X", TerminationReason.UPSTREAM_RESET),
    ],
)
def test_ending_follows_from_response_flags(flags: str, ending: TerminationReason) -> None:
    assert RequestSummary(200, 1.0, 0, 0, flags, "-").ending is ending


async def test_disconnect_before_response_is_reported(stage: Stage, send_request: MakeRequest, lines: list[dict[str, Any]]) -> None:
    number, _ = await stage.begin(send_request("/in", host="open.example.com"))
    stage.forwarded.on_access_log_line(f"{number} - 0 12 0 0 DC -")
    assert (lines[0]["status"], lines[0]["ending"]) == (499, "client_disconnected")


BUFFER_BODY = (("content-length", "1000"),)


async def test_dripping_client_is_reset(stage: Stage, send_request: MakeRequest, lines: list[dict[str, Any]], counted: list[Any]) -> None:
    number, _ = await stage.begin(send_request("/in", *BUFFER_BODY, host="open.example.com", method="POST", peer="192.0.2.7:5000"))
    forwarded, read = stage.forwarded._requests[number], stage.ext_authz._service().data_plane.forwarding_table.read_timeout
    forwarded._progress_at -= 1.2 * read
    stage.forwarded.on_upload_log_line(f"{number} 255 -")
    assert await stage.cuts() == [], "there is time left"
    forwarded._progress_at -= 0.1 * read
    stage.forwarded.on_upload_log_line(f"{number} 255 -")
    assert await stage.cuts() == [{("192.0.2.7", 5000)}]
    stage.forwarded.on_access_log_line(f"{number} - 0 31000 0 255 DC downstream_remote_disconnect")
    assert (lines[0]["status"], lines[0]["ending"]) == (499, "client_disconnected")
    assert counted == [(b"open.example.com", b"POST", 408, 31.0, 255, 0)]


async def test_stream_idle_timeout_of_a_body_is_the_clients(
    stage: Stage, send_request: MakeRequest, lines: list[dict[str, Any]], counted: list[Any]
) -> None:
    number, stream = await stage.begin(send_request("/in", *BUFFER_BODY, host="open.example.com", method="POST"))
    stage.forwarded.on_access_log_line(f"{number} - 408 30500 77 5 SI stream_idle_timeout")
    assert (lines[0]["status"], lines[0]["ending"], "problem" in lines[0]) == (499, "client_disconnected", False)
    assert (stream.status, stream.termination) == (None, TerminationReason.CLIENT_DISCONNECTED)
    assert counted == [(b"open.example.com", b"POST", 408, 30.5, 5, 77)]


async def test_upstream_408_is_a_complete_response(stage: Stage, send_request: MakeRequest, lines: list[dict[str, Any]]) -> None:
    number, stream = await stage.begin(send_request("/in", host="open.example.com"))
    stage.forwarded.on_access_log_line(f"{number} - 408 30 77 5 - via_upstream")
    assert (lines[0]["status"], lines[0]["ending"], stream.status) == (408, "complete", 408)


async def test_sufficient_upload_progress_is_not_reset(stage: Stage, send_request: MakeRequest) -> None:
    number, _ = await stage.begin(send_request("/in", *BUFFER_BODY, host="open.example.com", method="POST"))
    forwarded, read = stage.forwarded._requests[number], stage.ext_authz._service().data_plane.forwarding_table.read_timeout
    for received, ended in (("256", "-"), ("512", "-"), ("513", "31000"), ("513", "31000")):
        forwarded._progress_at -= 2 * read
        stage.forwarded.on_upload_log_line(f"{number} {received} {ended}")
    stage.forwarded.on_upload_log_line("unknown 1 -")
    assert await stage.cuts() == []


async def test_non_stream_gets_a_response_timer(stage: Stage, send_request: MakeRequest) -> None:
    number, _ = await stage.begin(send_request("/", ("accept", "text/event-stream"), host="rpc.example.com", peer="192.0.2.7:5000"))
    forwarded = stage.forwarded._requests[number]
    stage.forwarded.on_not_streaming(number)
    timer = forwarded._response_timer
    assert timer is not None
    timer._run()  # type: ignore[attr-defined]
    assert await stage.cuts() == [{("192.0.2.7", 5000)}]
    stage.forwarded.on_access_log_line(f"{number} - 200 12 0 0 DC -")
    assert timer.cancelled()
