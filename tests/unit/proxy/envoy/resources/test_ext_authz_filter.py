"""There is no way to anywhere but for what gate has marked, and gate's silence is a refusal."""

import re
from pathlib import Path
from typing import Any

import pytest

from proxy.envoy.envoy_request_head import MAX_BUFFERED_BODY
from proxy.envoy.resources import upgrade_reaper
from proxy.envoy.resources.bootstrap import GATE
from proxy.envoy.resources.ext_authz_filter import FILTER, ExtAuthzFilter, not_starting_with
from proxy.envoy.resources.internal_headers import (
    AUTHORIZED,
    BODY_UNDECLARED,
    CLUSTER,
    INTERNAL_HEADERS,
    MAY_STREAM,
    NO_CLUSTER,
    PREFIX,
    TOKEN,
)
from proxy.envoy.resources.lua_scripts import FINALIZE_FILTER
from tests.support.options import make_options


@pytest.fixture
def ext_authz(tmp_path: Path) -> ExtAuthzFilter:
    return ExtAuthzFilter.from_options(make_options(tmp_path), "the-token", "the-mark", "/log")


def conditions(route: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = route["match"].get("headers", [])
    return found


MARKED = {"name": AUTHORIZED, "string_match": {"exact": "the-mark"}}


def test_check_is_authenticated_and_fails_closed(ext_authz: ExtAuthzFilter) -> None:
    check = ext_authz.filters()[0]["typed_config"]
    assert check["failure_mode_allow"] is False
    assert check["clear_route_cache"] is True
    assert check["http_service"]["authorization_request"]["headers_to_add"] == [{"key": TOKEN, "value": "the-token"}]


def where(action: dict[str, Any]) -> str:
    return str(action.get("cluster") or action["cluster_header"])


def test_only_authorized_requests_reach_upstreams(ext_authz: ExtAuthzFilter) -> None:
    routes = ext_authz.routes("9s", "3s")
    for route in routes:
        if route.get("route", {}).get("cluster_header") == CLUSTER:
            assert MARKED in conditions(route)
            assert set(INTERNAL_HEADERS) <= set(route["request_headers_to_remove"])
    elsewhere = [route for route in routes if MARKED not in conditions(route)]
    assert [route.get("direct_response") or where(route["route"]) for route in elsewhere] == [
        NO_CLUSTER,
        {"status": 503},
        GATE,
        GATE,
        GATE,
        {"status": 411},
        {"status": 503},
    ]
    assert conditions(routes[-1]) == []


def test_first_route_denies_unauthorized_requests(ext_authz: ExtAuthzFilter) -> None:
    with_body, first = ext_authz.routes("9s", "3s")[:2]
    assert first["direct_response"] == {"status": 503}
    assert where(with_body["route"]) == NO_CLUSTER
    for route in (with_body, first):
        lacking = {each["name"] for each in conditions(route) if each.get("invert_match")}
        assert lacking == {AUTHORIZED, BODY_UNDECLARED, "upgrade"}


def test_small_body_route_uses_read_timeout(ext_authz: ExtAuthzFilter) -> None:
    pattern = re.compile(conditions(ext_authz.routes("9s", "3s")[0])[0]["string_match"]["safe_regex"]["regex"])
    assert all(pattern.fullmatch(str(length)) for length in (1, 10, MAX_BUFFERED_BODY))
    assert not any(pattern.fullmatch(length) for length in ("0", "00", "", "1000000"))


def test_no_cluster_header_is_never_set() -> None:
    assert NO_CLUSTER not in INTERNAL_HEADERS
    assert NO_CLUSTER.startswith(PREFIX), "no client can send it"


def test_only_upgrades_and_connect_skip_the_check(ext_authz: ExtAuthzFilter) -> None:
    unchecked = [route for route in ext_authz.routes("9s", "3s") if FILTER in route.get("typed_per_filter_config", {})]
    assert {route["route"]["cluster"] for route in unchecked} == {GATE}
    *upgrades, tunnel = unchecked
    assert [conditions(route) for route in upgrades] == [[{"name": "upgrade", "present_match": True}]] * 2
    assert tunnel["match"] == {"connect_matcher": {}}


def test_a_silence_is_bounded_by_envoy_but_where_gate_knows_better(ext_authz: ExtAuthzFilter) -> None:
    matches = [(route, route["route"]) for route in ext_authz.routes("9s", "3s") if "route" in route]
    assert {action["flush_timeout"] for _, action in matches} == {"9s"}
    (_, coming), *matches = matches
    assert (where(coming), coming["idle_timeout"]) == (NO_CLUSTER, "3s"), "of a body that is not whole"
    bounded = {
        str(action.get("cluster", "")) + str(MAY_STREAM in str(conditions(route))): action["idle_timeout"] for route, action in matches
    }
    assert bounded == {f"{GATE}False": "0s", "True": "0s", "False": "9s"}


def test_script_sets_the_authorized_header_last(ext_authz: ExtAuthzFilter) -> None:
    (finalize,) = (each for each in ext_authz.filters() if each["name"] == FINALIZE_FILTER)
    render_script = finalize["typed_config"]["default_source_code"]["inline_string"]
    assert not re.search(r"\$[A-Z]", render_script)
    lines = [line.strip() for line in render_script.rstrip().splitlines()]
    assert lines[-3:] == [f'headers:replace("{AUTHORIZED}", "the-mark")', "handle:clearRouteCache()", "end"]
    assert render_script.count("the-mark") == render_script.count("clearRouteCache()") == 1


def test_only_upload_log_is_periodic(ext_authz: ExtAuthzFilter) -> None:
    for log, is_periodic in ((ext_authz.upload_log(), True), (ext_authz.access_log(), False), (upgrade_reaper.access_log("/log"), False)):
        at_its_time = log["filter"]["and_filter"]["filters"][0]["log_type_filter"]
        assert at_its_time == {"types": ["DownstreamPeriodic"], "exclude": not is_periodic}


def test_framing_headers_of_check_responses_are_excluded() -> None:
    pattern = re.compile(not_starting_with((":", "content-le")))
    for name in ("content-length", ":status", ":"):
        assert not pattern.fullmatch(name), name
    for name in ("c", "cookie", "content-language", "content-type", "content-l", "x-a", "accept", "!"):
        assert pattern.fullmatch(name), name


def test_the_questions_of_a_client_are_not_framed_by_its_connection(ext_authz: ExtAuthzFilter) -> None:
    left_out = {next(iter(each.values())) for each in ext_authz.filters()[0]["typed_config"]["disallowed_headers"]["patterns"]}
    assert {"connection", "upgrade", "transfer-encoding", "x-envoy-"} <= left_out
    allowed = ext_authz.filters()[0]["typed_config"]["http_service"]["authorization_response"]["allowed_upstream_headers"]
    assert not re.fullmatch(allowed["patterns"][0]["safe_regex"]["regex"], "content-length")
