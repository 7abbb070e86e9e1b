import json
import logging
import subprocess
import sys
from types import SimpleNamespace

import pytest
import structlog

from foundation.telemetry.logs import MAX_LINES, SUPPRESSED, BoundedLog, configure_logs, log_access, log_access_lazy
from tests.support.children import ROOT

pytestmark = pytest.mark.usefixtures("logging_restored")


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_line_is_one_json_object_with_time_level_and_event(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "info", readable=False)
    structlog.get_logger("x").info("something happened", who="ann\n{")
    logging.getLogger("a.library").warning("it %s", "says")
    own, other = (json.loads(line) for line in lines_of(capsys))
    assert (own["event"], own["who"], own["level"]) == ("something happened", "ann\n{", "info")
    assert (other["event"], other["level"]) == ("it says", "warning")
    assert own["time"].endswith("Z")


def test_each_level_hides_lower_levels(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("warn", "error", readable=False)
    structlog.get_logger("x").info("hidden")
    structlog.get_logger("x").warning("shown")
    structlog.get_logger("gate.access").warning("hidden")
    assert [json.loads(line)["event"] for line in lines_of(capsys)] == ["shown"]


def test_an_exception_is_part_of_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "info", readable=False)
    try:
        raise ValueError("boom")
    except ValueError:
        structlog.get_logger("x").exception("failed")
    (line,) = lines_of(capsys)
    assert "ValueError: boom" in json.loads(line)["exception"]


READABLE_EXCEPTION = """
import rich, structlog
from foundation.telemetry.logs import configure_logs
configure_logs("info", "info", readable=True)
secret = "".join(("hun", "ter2"))
try:
    raise ValueError(len(secret))
except ValueError:
    structlog.get_logger("x").exception("failed")
"""


def test_readable_tracebacks_have_no_local_variables() -> None:
    # A separate process, because structlog formats exceptions with rich only if it was imported first.
    output = subprocess.run([sys.executable, "-c", READABLE_EXCEPTION], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    assert "ValueError: 7" in output
    assert "hunter2" not in output


def test_gate_debug_is_for_readers(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "info", readable=True)
    structlog.get_logger("x").info("something happened", who="ann")
    (line,) = lines_of(capsys)
    assert "something happened" in line
    assert not line.startswith("{")


def test_chatty_libraries_are_quiet_unless_they_warn(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("debug", "debug", readable=False)
    logging.getLogger("httpx").info("GET https://idp.example/token")
    assert lines_of(capsys) == []


def test_django_report_has_the_request_id_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "info", readable=False)
    request = SimpleNamespace(scope={"gate": SimpleNamespace(request_id="id1")})
    django = logging.getLogger("django.request")
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        django.exception("Internal Server Error: /x", extra={"request": request})
        django.exception("Internal Server Error: /y", extra={"request": SimpleNamespace()})
        django.warning("Bad Request: /x", extra={"request": request}, exc_info=True)
    django.error("Service Unavailable: /x", extra={"request": request})  # a page of gate, which has its own line
    assert [json.loads(line).get("request_id") for line in lines_of(capsys)] == ["id1", None]


def test_an_access_line_looks_like_every_other(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "info", readable=False)
    log_access(logging.INFO, {"path": "/a\n{", "status": 200})
    structlog.get_logger("x").info("something")
    access, other = (json.loads(line) for line in lines_of(capsys))
    assert set(other) <= set(access)
    assert (access["event"], access["path"], access["level"]) == ("request", "/a\n{", "info")
    assert access["time"].endswith("Z")
    assert len(access["time"]) == len(other["time"])


def test_log_fields_are_computed_only_where_logged(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "warn", readable=False)
    computed = []

    def fields() -> dict[str, object]:
        computed.append("told")
        return {"status": 200}

    log_access_lazy(logging.INFO, fields)
    assert (computed, lines_of(capsys)) == ([], [])
    log_access_lazy(logging.WARNING, fields)
    assert [json.loads(line)["status"] for line in lines_of(capsys)] == [200]


def test_readers_get_readable_access_lines(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("info", "info", readable=True)
    log_access(logging.WARNING, {"path": "/a"})
    (line,) = lines_of(capsys)
    assert "request" in line
    assert not line.startswith("{")


def test_lines_beyond_the_bound_are_counted_in_the_next_second() -> None:
    now = 100.0
    bounded = BoundedLog("a request was refused", clock=lambda: now)
    with structlog.testing.capture_logs() as lines:
        for number in range(MAX_LINES + 7):
            bounded.emit(number=number)
        now += 0.9
        bounded.emit(number=-1)
        assert [line["number"] for line in lines] == list(range(MAX_LINES))
        now += 0.2
        bounded.emit(number=50)
        now += 2.0
        bounded.emit(number=51)
    assert {line["log_level"] for line in lines} == {"warning"}
    reported = [(line["event"], line.get("number"), line.get("lines")) for line in lines[MAX_LINES:]]
    assert reported == [(SUPPRESSED, None, 8), ("a request was refused", 50, None), ("a request was refused", 51, None)]
