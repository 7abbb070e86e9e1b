"""The response script is rendered completely, and all upstream routes have it."""

import re
from pathlib import Path
from typing import Any

from proxy.envoy.resources.internal_headers import LOCAL_REPLY_REASON, RESPONSE_RULES, STREAM_ID
from proxy.envoy.resources.lua_scripts import FINALIZE_FILTER
from proxy.envoy.resources.response_filter import FILTER, PROXIED_REQUESTS, ResponseFilter, mark_local_replies
from tests.support.options import make_options


def get_script(route: dict[str, Any], name: str) -> str:
    source: str = route["typed_per_filter_config"][name]["source_code"]["inline_string"]
    return source


def test_response_script_is_fully_rendered(tmp_path: Path) -> None:
    answers = ResponseFilter.from_options(make_options(tmp_path, headers={"X-A": "100%"}), "the-token")
    for reports_non_streams in (True, False):
        route = answers.route(
            {"route": {"timeout": "0s"}, "typed_per_filter_config": {"other": {}}}, reports_non_streams=reports_non_streams
        )
        render_script = get_script(route, FINALIZE_FILTER if reports_non_streams else FILTER)
        assert not re.search(r"\$[A-Z]", render_script)
        assert "the-token" in render_script
        assert ("not is_valid_status or true then" in render_script) == reports_non_streams
        assert route["route"] == {"timeout": "0s"}
        assert "other" in route["typed_per_filter_config"]
        assert "proxy-authenticate" in route["response_headers_to_remove"]
        (added,) = route["response_headers_to_add"]
        assert added == {"header": {"key": "X-A", "value": "100%%"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}


def test_script_applies_rules_only_if_gate_sent_some(tmp_path: Path) -> None:
    answers = ResponseFilter.from_options(make_options(tmp_path), "the-token")
    for applies_route_rules in (True, False):
        render_script = get_script(
            answers.route({}, applies_route_rules=applies_route_rules), FINALIZE_FILTER if applies_route_rules else FILTER
        )
        assert (f"if {str(applies_route_rules).lower()} then apply(" in render_script, RESPONSE_RULES in render_script) == (True, True)


def test_route_with_rules_never_skips_the_script(tmp_path: Path) -> None:
    cleaned, _ = ResponseFilter.from_options(make_options(tmp_path), "the-token").filters()
    assert "matcher" in str(cleaned)
    for route in (
        ResponseFilter.from_options(make_options(tmp_path), "a").route({}, **{kind: True})
        for kind in ("reports_non_streams", "applies_route_rules")
    ):
        assert route["typed_per_filter_config"][FILTER]["disabled"] is True
        assert get_script(route, FINALIZE_FILTER)


def test_script_is_skipped_only_for_clean_responses(tmp_path: Path) -> None:
    cleaned, _ = ResponseFilter.from_options(make_options(tmp_path), "the-token").filters()
    (matcher,) = cleaned["typed_config"]["xds_matcher"]["matcher_list"]["matchers"]
    plain = {":status": "200"}
    for headers in (plain, {**plain, "connection": "close"}, {**plain, "connection": "keep-alive"}, {":status": "599"}):
        assert holds(matcher["predicate"], headers), headers
    odd = [{":status": status} for status in ("101", "199", "600", "20", "2000", "")]
    odd += [
        {**plain, name: value}
        for name, value in (("set-cookie", ""), ("set-cookie", "a=b"), (LOCAL_REPLY_REASON, "x"), ("connection", "close, x-a"))
    ]
    for headers in odd:
        assert not holds(matcher["predicate"], headers), headers


def holds(predicate: dict[str, Any], headers: dict[str, str]) -> bool:
    """As Envoy evaluates it (xds.type.matcher.v3.Matcher)."""
    ((kind, inner),) = predicate.items()
    if kind == "not_matcher":
        return not holds(inner, headers)
    if kind in ("and_matcher", "or_matcher"):
        return (all if kind == "and_matcher" else any)(holds(each, headers) for each in inner["predicate"])
    value, expected = headers.get(inner["input"]["typed_config"]["header_name"]), inner["value_match"]
    pattern = expected["safe_regex"]["regex"] if "safe_regex" in expected else re.escape(expected["exact"])
    return value is not None and re.fullmatch(pattern, value) is not None


def test_removes_request_trailers_and_trailer_cookies(tmp_path: Path) -> None:
    _, trailers = ResponseFilter.from_options(make_options(tmp_path), "the-token").filters()
    mutations = trailers["typed_config"]["mutations"]
    assert mutations["request_trailers_mutations"] == [{"remove_on_match": {"key_matcher": {"safe_regex": {"regex": ".*"}}}}]
    removed = {each["remove"] for each in mutations["response_trailers_mutations"]}
    assert {"set-cookie", "connection", "keep-alive", "upgrade", "alt-svc"} <= removed


def test_local_replies_have_a_reason() -> None:
    mapper = mark_local_replies()
    assert mapper["filter"] == PROXIED_REQUESTS
    assert STREAM_ID in str(PROXIED_REQUESTS)
    (added,) = mapper["headers_to_add"]
    assert added["header"]["key"] == LOCAL_REPLY_REASON
    assert STREAM_ID in added["header"]["value"], "otherwise an application could send it"
