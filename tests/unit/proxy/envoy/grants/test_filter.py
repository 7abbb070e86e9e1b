"""What Envoy is told of grants: nothing is left to fill in, and the judge is left out on one route alone."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.envoy.grants.filter import GrantFilter, cut_listener
from proxy.envoy.grants.table import GrantTable
from proxy.envoy.listener import CARRIED
from tests.support.options import make_options


@pytest.fixture
def grants(tmp_path: Path) -> Iterator[GrantFilter]:
    table = GrantTable(4, 1)
    yield GrantFilter.of(table, 9, "the-secret", make_options(tmp_path, headers={"X-A": "100%"}))
    table.close()


def test_scripts_have_all_that_they_need(grants: GrantFilter) -> None:
    filters = str([*grants.filters(), grants.route({}, "judge"), cut_listener(Path("/cuts"), 8443)])
    assert not re.search(r"\$[A-Z]", filters)
    assert "the-secret" in filters


def test_the_judge_is_left_out_for_who_knows_the_secret_alone(grants: GrantFilter) -> None:
    route = grants.route({"match": {"prefix": "/"}, "route": {"timeout": "0s"}}, "judge")
    assert route["match"] == {"prefix": "/", "headers": [{"name": CARRIED, "string_match": {"exact": "the-secret"}}]}
    assert route["route"] == {"timeout": "0s"}
    assert route["typed_per_filter_config"]["judge"]["disabled"] is True
    (added,) = route["response_headers_to_add"]
    assert added == {"header": {"key": "X-A", "value": "100%%"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}


def test_cuts_are_for_this_user_alone(tmp_path: Path) -> None:
    assert cut_listener(tmp_path / "cuts", 8443)["address"] == {"pipe": {"path": str(tmp_path / "cuts"), "mode": 0o600}}


def test_the_switching_off_of_the_judge_is_the_last_thing_that_is_done(grants: GrantFilter) -> None:
    script = grants.filters()[0]["typed_config"]["default_source_code"]["inline_string"]
    lines = [line.strip() for line in script.rstrip().splitlines()]
    assert lines[-3:] == [f'headers:replace("{CARRIED}", "the-secret")', "handle:clearRouteCache()", "end"]
    assert script.count("the-secret") == script.count("clearRouteCache()") == 1
