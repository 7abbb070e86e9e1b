"""What gate tells of requests that Envoy carried by grants."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proxy.envoy.grants import access_log as logs
from proxy.envoy.grants.access_log import GrantAccessLog, GrantedRequest
from proxy.upstreams.route_statistics import RouteStatistics
from tests.support.kept_spans import KeptSpans
from tests.unit.proxy.envoy.grants.conftest import Keeping

OF_ANN = GrantedRequest(b"app.example.com", (("client", "192.0.2.7"), ("user_id", "oidc/ann")), None)
ID = "0123456789abcdef"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(logs, "is_access_logged", lambda level: True)
    monkeypatch.setattr(logs, "log_access", lambda level, fields: lines.append({"level": level, **fields}))
    return lines


async def test_a_request_is_told_of_with_whose_it_was(kept: Keeping, told: list[dict[str, Any]]) -> None:
    counted: list[Any] = []
    kept.service.answered = lambda *facts: counted.append(facts)  # type: ignore[assignment]
    statistics = RouteStatistics("app")
    kept.access_log.know(ID, replace(OF_ANN, statistics=statistics))
    kept.access_log.tell(f"{ID}00{1:014x} GET 200 12 345 - /a?secret=1")
    (line,) = told
    assert (line["request_id"][:16], line["path"], line["status"], line["bytes_sent"], line["duration_ms"]) == (ID, "/a", 200, 345, 12.0)
    assert (line["user_id"], line["client"], line["remembered"]) == ("oidc/ann", "192.0.2.7", True)
    assert counted == [(b"app.example.com", b"GET", 200, 0.012, None, 345)]
    assert (statistics.requests, statistics.active, statistics.codes[200]) == (1, 0, 1)


async def test_few_are_traced_with_the_time_that_envoy_measured(kept: Keeping, tmp_path: Path) -> None:
    spans = KeptSpans(tmp_path)
    kept.access_log.know(ID, replace(OF_ANN, place="app.example.com", facts={"gate.remembered": True}))
    with spans.in_force():
        kept.access_log.tell(f"{ID}00{1:014x} GET 200 1500 345 - /a?secret=1")
        spans.chance = 1.0
        kept.access_log.tell(f"{ID}00{2:014x} GET 200 1500 345 - /a")
        (span,) = spans.ended()
    assert (span.name, span.end_time - span.start_time) == ("GET app.example.com", 1_500_000_000)  # type: ignore[operator]
    assert dict(span.attributes) == {  # type: ignore[arg-type]
        "http.request.method": "GET",
        "gate.request_id": f"{ID}00{1:014x}",
        "url.path": "/a",
        "gate.remembered": True,
        "http.response.status_code": 200,
    }


@pytest.mark.parametrize(
    ("code", "flags", "status", "problem"),
    [("0", "DC", 499, None), ("504", "UT", 504, "timed out"), ("200", "UC,X", 200, "upstream broke off"), ("200", "SI", 200, "silent")],
)
async def test_how_it_ended_is_told(
    kept: Keeping, told: list[dict[str, Any]], code: str, flags: str, status: int, problem: str | None
) -> None:
    kept.access_log.tell(f"{ID}00{1:014x} GET {code} 1 0 {flags} /")
    assert (told[0]["status"], told[0].get("problem")) == (status, problem)
    assert "user_id" not in told[0]


async def test_odd_lines_do_no_harm(kept: Keeping, told: list[dict[str, Any]]) -> None:
    for line in ("nonsense", "x y z", f"{ID}00{2:014x} GET - - - - /"):
        kept.access_log.tell(line)
    assert told == []


def test_only_so_many_grants_are_known() -> None:
    log = GrantAccessLog(lambda: None, 2)  # type: ignore[arg-type,return-value]
    for number in range(5):
        log.know(str(number), OF_ANN)
    assert list(log._known) == ["3", "4"]
