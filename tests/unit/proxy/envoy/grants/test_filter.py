"""What Envoy is told of grants: nothing is left to fill in, and the judge is left out on one route alone."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.envoy.grants.filter import GrantFilter
from proxy.envoy.grants.table import GrantTable
from proxy.envoy.resources.edge_headers import CARRIED, OURS
from proxy.envoy.resources.judge_filter import FILTER
from tests.support.options import make_options


@pytest.fixture
def grants(tmp_path: Path) -> Iterator[GrantFilter]:
    table = GrantTable(4, 1)
    yield GrantFilter.of(table, "/log", "the-secret", make_options(tmp_path), "the-token")
    table.close()


def test_scripts_have_all_that_they_need(grants: GrantFilter) -> None:
    filters = str([*grants.filters(), grants.route("9s")])
    assert not re.search(r"\$[A-Z]", filters)
    assert "the-secret" in filters


def test_the_judge_is_left_out_for_who_knows_the_secret_alone(grants: GrantFilter) -> None:
    route = grants.route("9s")
    assert route["match"] == {"prefix": "/", "headers": [{"name": CARRIED, "string_match": {"exact": "the-secret"}}]}
    assert (route["route"]["idle_timeout"], route["route"]["timeout"]) == ("9s", "30.000s")
    assert route["typed_per_filter_config"][FILTER]["disabled"] is True
    assert set(OURS) <= set(route["request_headers_to_remove"])


def test_the_switching_off_of_the_judge_is_the_last_thing_that_is_done(grants: GrantFilter) -> None:
    script = grants.filters()[0]["typed_config"]["default_source_code"]["inline_string"]
    lines = [line.strip() for line in script.rstrip().splitlines()]
    assert lines[-3:] == [f'headers:replace("{CARRIED}", "the-secret")', "handle:clearRouteCache()", "end"]
    assert script.count("the-secret") == script.count("clearRouteCache()") == 1
