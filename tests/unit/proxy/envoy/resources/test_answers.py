"""What Envoy is told of answers: nothing is left to fill in, and all routes to upstreams clean them."""

import re
from pathlib import Path

from proxy.envoy.resources.answers import CARRIED_ONES, FILTER, AnswerFilter, failures
from proxy.envoy.resources.edge_headers import FAILED, NUMBER, RESPONSE
from tests.support.options import make_options


def test_the_script_has_all_that_it_needs(tmp_path: Path) -> None:
    answers = AnswerFilter.of(make_options(tmp_path, headers={"X-A": "100%"}), "the-token")
    for watches in (True, False):
        route = answers.route({"route": {"timeout": "0s"}, "typed_per_filter_config": {"other": {}}}, watches=watches)
        script = route["typed_per_filter_config"][FILTER]["source_code"]["inline_string"]
        assert not re.search(r"\$[A-Z]", script)
        assert "the-token" in script
        assert ("not is_good or true then" in script) == watches
        assert route["route"] == {"timeout": "0s"}
        assert "other" in route["typed_per_filter_config"]
        assert "proxy-authenticate" in route["response_headers_to_remove"]
        (added,) = route["response_headers_to_add"]
        assert added == {"header": {"key": "X-A", "value": "100%%"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}


def test_only_where_gate_has_told_rules_the_script_looks_for_them(tmp_path: Path) -> None:
    answers = AnswerFilter.of(make_options(tmp_path), "the-token")
    for has_rules in (True, False):
        script = answers.route({}, has_rules=has_rules)["typed_per_filter_config"][FILTER]["source_code"]["inline_string"]
        assert (f"if {str(has_rules).lower()} then apply(" in script, RESPONSE in script) == (True, True)


def test_no_trailer_of_a_client_goes_on_and_none_of_an_application_sets_a_cookie(tmp_path: Path) -> None:
    _, trailers = AnswerFilter.of(make_options(tmp_path), "the-token").filters()
    mutations = trailers["typed_config"]["mutations"]
    assert mutations["request_trailers_mutations"] == [{"remove_on_match": {"key_matcher": {"safe_regex": {"regex": ".*"}}}}]
    assert mutations["response_trailers_mutations"] == [{"remove": "set-cookie"}]


def test_envoys_own_answers_say_why_they_are() -> None:
    mapper = failures()
    assert mapper["filter"] == CARRIED_ONES
    assert NUMBER in str(CARRIED_ONES)
    assert mapper["headers_to_add"] == [{"header": {"key": FAILED, "value": "%RESPONSE_CODE_DETAILS%"}}]
