"""Findings of authorize's configuration checks have their location."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from authorize.config_checks import CONFIG_CHECKS, PerRouteCheck, routes_without_allow_rule
from authorize.explain.simulation import SimulatedUser, simulate_identity
from authorize.policy.compiled_route import compile_route
from authorize.policy.decision import decide
from authorize.policy.policy_request import ClientCertificate, PolicyRequest
from authorize.policy.reasons import Reason
from authorize.policy.route_table import RouteTable
from config.loader import CheckResult, check_configuration
from config.routes.route import Route
from config.validation import Finding
from foundation.errors import Problem
from tests.support.certs import certificate_files
from tests.support.client_certificates import authority
from tests.support.examples import examples
from tests.support.options import MINIMAL
from tests.support.providers import a_provider

ROUTES: list[dict[str, Any]] = [
    {"from": "https://open.example.com", "to": "http://a", "allow_public_unauthenticated_access": True},
    {"from": "https://app.example.com", "to": "http://a", "prefix": "/admin", "allowed_groups": ["admins"], "name": "admin"},
    {"from": "https://app.example.com", "to": "http://a", "allowed_domains": ["example.com"], "allowed_idp_claims": {"team": ["x"]}},
]


def checked(directory: Path, **settings: Any) -> CheckResult:
    path = directory / "config.yaml"
    path.write_text(yaml.dump({**MINIMAL, "policy": ROUTES, **settings}, sort_keys=False, Dumper=yaml.CSafeDumper))
    return check_configuration(path, {}, CONFIG_CHECKS)


def failures(directory: Path, *tests: dict[str, Any]) -> list[str]:
    return [problem.message for problem in checked(directory, policy_tests=list(tests)).errors]


@pytest.mark.parametrize(
    "test",
    [
        {"url": "https://open.example.com/", "expect": "allow"},
        {"url": "https://app.example.com/", "expect": "sign-in"},
        {"url": "https://app.example.com/", "user": "ann@example.com", "expect": "allow", "route": 2},
        {"url": "https://app.example.com/", "user": "ann@other.com", "expect": "refuse"},
        {"url": "https://app.example.com/", "user": "7", "claims": {"team": "x"}, "expect": "allow"},
        {"url": "https://app.example.com/", "user": "a@example.com", "claims": {"email_verified": False}, "expect": "refuse"},
        {"url": "https://app.example.com/x/../admin", "user": "7", "groups": ["admins"], "expect": "allow", "route": "admin"},
        {"url": "https://app.example.com/admin", "user": "ann@example.com", "expect": "refuse", "route": 1, "method": "POST"},
        {"url": "https://app.example.com//admin", "user": "ann@example.com", "expect": "refuse"},
        {"url": "https://nowhere.example.com/", "expect": "no-route"},
    ],
)
def test_a_policy_test_that_holds_is_silent(tmp_path: Path, test: dict[str, Any]) -> None:
    assert failures(tmp_path, test) == []


@pytest.mark.parametrize(
    ("test", "message", "because"),
    [
        (
            {"url": "https://app.example.com/admin", "user": "ann@example.com", "expect": "allow", "name": "ann"},
            "fails (ann): expected allow, got refuse by policy[1] (admin): allowed_groups: ",
            (Reason.NO_GROUPS.value,),
        ),
        (
            {"url": "https://app.example.com/", "user": "7", "expect": "allow"},
            "fails: expected allow, got refuse by policy[2]: allowed_domains: ",
            (Reason.EMAIL_NOT_USABLE.value, f"allowed_idp_claims: {Reason.CLAIM_NOT_LISTED.value}"),
        ),
        (
            {"url": "https://open.example.com/", "expect": "sign-in"},
            "fails: expected sign-in, got allow by policy[0]: allow_public_unauthenticated_access: ",
            (Reason.PUBLIC.value,),
        ),
        (
            {"url": "https://nowhere.example.com/", "expect": "refuse"},
            "fails: expected refuse, got no-route: ",
            (),
        ),
        (
            {"url": "https://app.example.com/admin", "user": "7", "groups": ["admins"], "expect": "allow", "route": 2},
            "fails: expected route 2, got policy[1] (admin)",
            (),
        ),
        (
            {"url": "https://app.example.com//admin", "expect": "allow"},
            "fails: expected allow, got refuse: ",
            ("as /admin,", "route 'admin'", "route 'https://app.example.com'"),
        ),
        ({"url": "app", "expect": "allow"}, "fails: invalid URL 'app': ", ("https://app.example.com/path",)),
    ],
)
def test_failing_policy_test_reports_actual_outcome(tmp_path: Path, test: dict[str, Any], message: str, because: tuple[str, ...]) -> None:
    (failure,) = failures(tmp_path, test)
    assert failure.startswith(message)
    assert all(expected in failure for expected in because)


def test_failing_policy_test_has_location(tmp_path: Path) -> None:
    failing = {"url": "https://app.example.com/", "expect": "allow"}
    (tmp_path / "tests.json").write_text(json.dumps({"policy_tests": [{**failing, "expect": "sign-in"}, failing]}, indent=1))
    errors = checked(tmp_path, policy_tests=[failing], policy_tests_file="tests.json").errors
    text = (tmp_path / "config.yaml").read_text()
    line = text.splitlines().index("policy_tests:") + 2
    assert [(problem.key, problem.file, problem.line) for problem in errors] == [
        ("policy_tests[0]", str(tmp_path / "config.yaml"), line),
        ("policy_tests_file.policy_tests[1]", str(tmp_path / "tests.json"), 7),
    ]
    assert {problem.rule for problem in errors} == {"policy-test"}


def test_invalid_configuration_skips_policy_tests(tmp_path: Path) -> None:
    failing = {"url": "https://app.example.com/", "expect": "allow"}
    errors = checked(tmp_path, policy_tests=[failing], cookie_secure="perhaps").errors
    assert [problem.key for problem in errors] == ["cookie_secure"]
    unusable = checked(tmp_path, policy_tests=[failing], policy=[*ROUTES, {**ROUTES[0], "prefix": "/a\\b"}]).errors
    assert [problem.key for problem in unusable] == ["policy[3].prefix"]


def test_a_route_that_can_not_be_compiled_is_an_error_at_its_line(tmp_path: Path) -> None:
    routes = [{"from": "https://a.example.com"}, {**ROUTES[0], "prefix": "/a\\b"}]
    errors = {problem.key: problem for problem in checked(tmp_path, policy=routes).errors}
    assert set(errors) == {"policy[0]", "policy[1].prefix"}
    lines = (tmp_path / "config.yaml").read_text().splitlines()
    assert "prefix" in lines[(errors["policy[1].prefix"].line or 0) - 1]


def warnings(directory: Path, *routes: dict[str, Any]) -> list[Problem]:
    return list(checked(directory, policy=list(routes)).warnings)


def test_a_route_behind_one_that_takes_everything_is_named_with_both_lines(tmp_path: Path) -> None:
    bad = {"from": "nothing"}
    found = warnings(tmp_path, bad, ROUTES[2], ROUTES[1])
    line = (tmp_path / "config.yaml").read_text().splitlines().index("- from: https://app.example.com") + 1
    assert [problem.key for problem in found] == ["policy[2]"]
    assert f"policy[1] (line {line})" in found[0].message


def test_warns_of_route_without_allow_rule(tmp_path: Path) -> None:
    closed = {"from": "https://b.example.com", "to": "http://a"}
    assert [problem.key for problem in warnings(tmp_path, closed, *ROUTES)] == ["policy[0]"]
    assert warnings(tmp_path, {"from": "https://b.example.com", "redirect": {"https_redirect": True}}) == []


def test_ambiguous_route_path_is_a_warning(tmp_path: Path) -> None:
    def there(**keys: Any) -> dict[str, Any]:
        return {"from": "https://p.example.com", "to": "http://a", "allow_any_authenticated_user": True, **keys}

    (found,) = warnings(tmp_path, *ROUTES, there(path="/a;v=1", name="first version"), there(prefix="/a%2Fb"), there(path="/a b"))
    assert found.key == f"policy[{len(ROUTES)}]"
    assert "the path as /a," in found.message
    assert "no route" in found.message
    assert [problem.key for problem in warnings(tmp_path, there(prefix="//x"), there(prefix="/x"))] == ["policy[0]"]
    assert "which belongs to route 'https://p.example.com'" in warnings(tmp_path, there(prefix="/v;1/"), there())[0].message
    assert warnings(tmp_path, there(regex="/a(;v=[0-9]+)?"), there(path="/b", regex="/b")) == []


def test_policy_test_presents_valid_certificate(tmp_path: Path) -> None:
    files = certificate_files(tmp_path, "app.example.com")
    tls = {"insecure_server": False, "certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}
    (tmp_path / "clients.pem").write_bytes(authority().pem)
    tests = [{"url": "https://open.example.com/", "expect": "allow"}, {"url": "https://app.example.com/", "expect": "sign-in"}]
    assert not checked(tmp_path, client_ca_file="clients.pem", policy_tests=tests, **tls).errors


RULES = st.fixed_dictionaries(
    {},
    optional={
        "allowed_users": st.sampled_from([[], ["7"]]),
        "allowed_groups": st.sampled_from([[], ["g"]]),
        "allowed_domains": st.sampled_from([[], ["example.com"]]),
        "allowed_idp_claims": st.sampled_from([{}, {"team": ["x"]}]),
        "allow_any_authenticated_user": st.booleans(),
        "cors_allow_preflight": st.booleans(),
        "tls_downstream_client_ca": st.just(base64.b64encode(authority().pem).decode()),
        "policy": st.sampled_from(
            [
                {"allow": {"user": "7"}},
                {"deny": {"user": "8"}},
                {"deny": {"not": {"user": "7"}}},
                {"allow": {"nor": ["reject"]}},
                {"deny": "accept"},
                [{"deny": {"user": "8"}}, {"allow": "accept"}],
                {"allow": {"http_method": "GET"}},
            ]
        ),
    },
)
ANN = {"groups": ["g"], "claims": {"team": "x", "email": "ann@example.com"}}


@given(RULES)
@example({})
@example({"policy": {"deny": {"user": "8"}}})
@example({"policy": {"allow": {"user": "7"}}})
@examples(40)
def test_route_without_allow_rule_denies_all(rules: dict[str, Any]) -> None:
    """Evaluated for an anonymous caller, a stranger, and a user who meets every rule."""
    try:
        route = Route.model_validate({"from": "https://app.example.com", "to": "http://a", **rules}, context={"files": None})
    except ValidationError:
        assume(False)
    table = RouteTable.build([route], frozenset({443}), client_ca=None)
    options = SimpleNamespace(policy=[route], providers={"oidc": a_provider()}, first_provider=a_provider())
    verdicts = {compiled.client_ca.id: "" for compiled in [compile_route(route, "policy[0]")] if compiled.client_ca}
    certificate = ClientCertificate("", "", "", verification_errors=verdicts)
    requests = [
        PolicyRequest("GET", "app.example.com", None, "/", client_certificate=certificate),
        PolicyRequest("OPTIONS", "app.example.com", None, "/", "", "https://a", "GET", client_certificate=certificate),
    ]
    people = [simulate_identity(identity, options) for identity in (SimulatedUser(), SimulatedUser("9"), SimulatedUser("7", **ANN))]
    enters = any(decide(request, identity, table, 0.0).is_allowed for request in requests for identity in people)
    assert bool(list(routes_without_allow_rule(options))) <= (not enters)


FINGERPRINT, SPKI = "ab" * 32, "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s="


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        ({}, "refuse"),
        ({"client_certificate": "good"}, "refuse"),
        ({"client_certificate": "none"}, "refuse"),
        ({"client_certificate": "untrusted"}, "refuse"),
        ({"client_certificate": {"fingerprint": ":".join(["AB"] * 32)}}, "allow"),
        ({"client_certificate": {"spki": SPKI}}, "allow"),
        ({"client_certificate": {"fingerprint": "cd" * 32}}, "refuse"),
        ({"source_ip": "203.0.113.7", "client_certificate": "good"}, "allow"),
        ({"source_ip": "203.0.113.7", "client_certificate": "none"}, "refuse"),
        ({"source_ip": "203.0.113.7", "client_certificate": "untrusted"}, "refuse"),
        ({"source_ip": "203.0.114.7"}, "refuse"),
        ({"headers": {"X-Api-Version": "2"}}, "allow"),
        ({"headers": {"X-Api-Version": "3"}}, "refuse"),
    ],
)
def test_policy_test_specifies_certificate_address_and_headers(tmp_path: Path, facts: dict[str, Any], outcome: str) -> None:
    files = certificate_files(tmp_path, "app.example.com")
    tls = {"insecure_server": False, "certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}
    (tmp_path / "clients.pem").write_bytes(authority().pem)
    allowed = [
        {"client_certificate": {"fingerprint": FINGERPRINT}},
        {"client_certificate": {"spki": SPKI}},
        {"source_ip": {"cidr": ["203.0.113.0/24"]}},
        {"http_header/x-api-version": "2"},
    ]
    routes = [{"from": "https://app.example.com", "to": "http://a", "policy": {"allow": {"or": allowed}}}]
    test = {"url": "https://app.example.com/", "user": "7", **facts}
    settings = {"client_ca_file": "clients.pem", "policy": routes, **tls}
    assert checked(tmp_path, policy_tests=[{**test, "expect": outcome}], **settings).errors == ()
    other = {"allow": "refuse", "refuse": "allow"}[outcome]
    (failure,) = checked(tmp_path, policy_tests=[{**test, "expect": other}], **settings).errors
    assert f"expected {other}, got {outcome} by policy[0]" in failure.message


def test_a_policy_test_may_describe_a_preflight(tmp_path: Path) -> None:
    route = {"from": "https://app.example.com", "to": "http://a", "allowed_users": ["ann@corp.example"], "cors_allow_preflight": True}
    headers = {"Origin": "https://other.example.com", "Access-Control-Request-Method": "POST"}
    test = {"url": "https://app.example.com/", "method": "OPTIONS", "headers": headers, "expect": "allow"}
    assert checked(tmp_path, policy=[route], policy_tests=[test]).errors == ()


def test_policy_test_describes_an_mcp_message(tmp_path: Path) -> None:
    rules = [
        {"deny": {"mcp_tool": {"not_in": ["search"]}}},
        {"deny": {"mcp_resource": {"not_starts_with": "docs://"}}},
        {"deny": {"mcp_prompt": "destroy"}},
        {"deny": {"and": [{"mcp_method": "tools/list"}, {"http_method": {"not_is": "POST"}}]}},
    ]
    route = {"from": "https://mcp.example.com", "to": "http://a", "allowed_users": ["ann@example.com"], "mcp": {}, "policy": rules}
    test = {"url": "https://mcp.example.com/", "user": "ann@example.com"}
    tests = [
        {**test, "mcp": {"tool": "search"}, "expect": "allow"},
        {**test, "mcp": {"method": "tools/call", "tool": "delete_repo"}, "expect": "refuse"},
        {**test, "mcp": {"method": "tools/list"}, "expect": "allow"},
        {**test, "mcp": {"resource": "docs://a"}, "expect": "allow"},
        {**test, "mcp": {"method": "resources/subscribe", "resource": "file:///a"}, "expect": "refuse"},
        {**test, "mcp": {"prompt": "review"}, "expect": "allow"},
        {**test, "mcp": {"prompt": "destroy"}, "expect": "refuse"},
        {**test, "expect": "allow"},
        {**test, "method": "POST", "expect": "refuse"},
    ]
    assert checked(tmp_path, policy=[route], policy_tests=tests).errors == ()
    others = [{**each, "expect": {"allow": "refuse", "refuse": "allow"}[each["expect"]]} for each in tests]
    assert len(checked(tmp_path, policy=[route], policy_tests=others).errors) == len(tests)


def test_no_warning_if_policy_has_allow_rule(tmp_path: Path) -> None:
    route = {"from": "https://app.example.com", "to": "http://a"}
    warned = [checked(tmp_path, policy=[{**route, "policy": {effect: {"user": "7"}}}]).warnings for effect in ("allow", "deny")]
    assert ["allows no user" in str(warnings) for warnings in warned] == [False, True]


def test_policy_test_with_grant(tmp_path: Path) -> None:
    route = {"from": "https://wiki.example.com", "to": "http://a", "policy": {"allow": {"granted": True}}}
    test = {"url": "https://wiki.example.com/", "user": "ann@example.com"}
    tests = [{**test, "expect": "refuse"}, {**test, "granted": True, "expect": "allow"}]
    assert checked(tmp_path, policy=[route], policy_tests=tests).errors == ()
    for described in ({"granted": True}, {"granted_tools": ["delete_repo"]}):
        (problem,) = checked(tmp_path, policy=[route], policy_tests=[{**test, "user": None, **described, "expect": "refuse"}]).errors
        assert "describes a user" in problem.message


@pytest.mark.parametrize(
    ("tool", "described", "expect"),
    [
        ("search", {}, "allow"),
        ("delete_repo", {}, "refuse"),
        ("delete_repo", {"granted_tools": ["delete_repo"]}, "allow"),
        ("delete_repo", {"granted_tools": ["merge_pr"]}, "refuse"),
        ("delete_repo", {"granted_tools": ["search", "delete_repo"]}, "allow"),
        ("delete_repo", {"granted": True}, "allow"),
        ("delete_repo", {"granted_tools": ["delete_repo"], "user": "service_account/ci"}, "refuse"),
    ],
)
def test_policy_test_with_grant_of_a_tool(tmp_path: Path, tool: str, described: dict[str, Any], expect: str) -> None:
    denied = {"and": [{"mcp_tool": {"not_in": ["search"]}}, {"not": {"granted": True}}]}
    route = {
        "from": "https://mcp.example.com",
        "to": "http://a",
        "mcp": {},
        "allow_any_authenticated_user": True,
        "policy": [{"deny": denied}],
    }
    test = {"url": "https://mcp.example.com/", "user": "ann@example.com", "mcp": {"tool": tool}, **described}
    assert checked(tmp_path, policy=[route], policy_tests=[{**test, "expect": expect}]).errors == ()


def test_a_route_in_which_nothing_was_found_is_looked_at_once_and_one_in_which_something_was_each_time(tmp_path: Path) -> None:
    looked: list[str] = []

    def look(index: int, route: Route) -> Iterator[Finding]:
        looked.append(route.name or "")
        if route.name == "bad":
            yield ("policy", index), "is bad"

    valid, bad = (Route.model_validate({**ROUTES[0], "name": name}) for name in ("good", "bad"))
    check = PerRouteCheck(look)
    for policy in ((valid, bad), (bad, valid), (valid,), (valid, bad)):
        places = [index for index, route in enumerate(policy) if route is bad]
        assert [path for path, *_ in check(SimpleNamespace(policy=policy))] == [("policy", place) for place in places]
    assert looked == ["good", "bad", "bad", "bad"]


def test_policy_test_describes_a_client(tmp_path: Path) -> None:
    rules = [{"allow": {"and": [{"client": ["claude.ai"]}, {"scope": "read"}]}}]
    route = {"from": "https://mcp.example.com", "to": "http://a", "mcp": {"scopes": {"read": "Read"}}, "policy": rules}
    test = {"url": "https://mcp.example.com/", "user": "ann@example.com"}
    tests = [
        {**test, "client": "https://claude.ai/client.json", "scopes": ["read"], "expect": "allow"},
        {**test, "client": "claude.ai", "scopes": ["read"], "expect": "allow"},
        {**test, "client": "claude.ai", "expect": "refuse"},
        {**test, "client": "other", "scopes": ["read"], "expect": "refuse"},
        {**test, "expect": "refuse"},
    ]
    assert checked(tmp_path, policy=[route], policy_tests=tests).errors == ()
