"""docs/operations/log-events.md lists each log event of the code, with its level, and no other."""

import pytest

from tests.support.children import ROOT
from tests.support.log_events import LogEvent, UnnamedEvent, events_in, listed_events, log_events

LISTED = listed_events(ROOT / "docs" / "operations" / "log-events.md")


def test_the_page_lists_each_event_of_the_code_once() -> None:
    names = [event.name for event in LISTED]
    assert sorted(names) == sorted(set(names)), "an event is listed twice"
    in_code = {event.name for event in log_events()}
    assert set(names) - in_code == set(), "not in the code"
    assert in_code - set(names) == set(), "not on the page"


def test_the_page_gives_the_level_of_each_event() -> None:
    levels: dict[str, set[str]] = {}
    for name, level in log_events():
        levels.setdefault(name, set()).add(level)
    differing = {event.name: event.level for event in LISTED if not levels[event.name] - {""} <= set(event.level.split(", "))}
    assert differing == {}
    assert {word for event in LISTED for word in event.level.split(", ")} <= {"info", "warning", "error"}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('log.info("a")', {("a", "info")}),
        ('log.exception("a")', {("a", "error")}),
        ('def f(bad):\n    write = log.warning if bad else log.info\n    write("a")', {("a", "")}),
        ('EVENT = "a"\ngetattr(log, level)(EVENT)', {("a", "")}),
        ('X = BoundedLog("a")\nY = BoundedLog("b", level="info")', {("a", "warning"), ("b", "info")}),
        ('def f(event):\n    log.error(event)\nf("a")\nf("b")', {("a", ""), ("b", "")}),
        ('write(json.dumps({"event": "a"}))', {("a", "")}),
    ],
)
def test_events_are_found_however_they_are_logged(source: str, found: set[tuple[str, str]]) -> None:
    assert set(events_in(source, "module.py")) == {LogEvent(*event) for event in found}


@pytest.mark.parametrize("source", ['log.info(f"{noun} changed")', "log.info(event)", 'log.info("a" + b)'])
def test_an_event_that_is_no_literal_is_refused(source: str) -> None:
    with pytest.raises(UnnamedEvent, match=r"module\.py:1"):
        list(events_in(source, "module.py"))
