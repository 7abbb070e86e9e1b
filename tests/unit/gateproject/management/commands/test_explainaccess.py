"""`explainaccess` reports the policy decision for users and service accounts."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from authorize.policy.reasons import Reason
from foundation.errors import ConfigError, Problem
from foundation.web.message import join_list
from gateproject.management.commands.explainaccess import Command
from tests.support.certs import certificate_files
from tests.support.client_certificates import authority
from tests.support.options import make_options
from tests.unit.authorize.builders import user
from tests.unit.authorize.logged import log_decision

APP = "https://app.example.com"
UPSTREAM = {"to": "http://127.0.0.1:1"}
POLICY = [
    {"from": APP, **UPSTREAM, "path": "/open", "allow_public_unauthenticated_access": True},
    {"from": APP, **UPSTREAM, "prefix": "/preflight", "cors_allow_preflight": True, "allowed_users": ["boss@corp.com"]},
    {"from": APP, **UPSTREAM, "prefix": "/boss", "allowed_users": ["boss@corp.com", "oidc/7", "eight"], "name": "Administration"},
    {"from": APP, **UPSTREAM, "prefix": "/claims", "allowed_idp_claims": {"level": [3], "realm.roles": ["ops"], "sub": ["seven"]}},
    {"from": APP, **UPSTREAM, "prefix": "/closed"},
    {"from": APP, **UPSTREAM, "allowed_groups": ["eng"], "allowed_domains": ["corp.com"]},
]


@pytest.fixture
def explain(tmp_path: Path):
    def run(*arguments: str, is_recorded: bool = False, **settings: Any) -> str:
        out = StringIO()
        if "--user" in arguments and not is_recorded:
            arguments = (*arguments, "--hypothetical")
        with override_settings(GATE_OPTIONS=make_options(tmp_path, **{"policy": POLICY, **settings}), GATE_CONFIG_ERROR=None):
            call_command(Command(stdout=out), *arguments)
        return out.getvalue()

    return run


@pytest.fixture
def explained(explain):
    return lambda *arguments, **settings: json.loads(explain(*arguments, "--json", **settings))


@pytest.mark.parametrize(
    ("arguments", "outcome", "described"),
    [
        ([], "forbidden", "no groups"),
        (["--client", "claude.ai"], "forbidden", "client claude.ai with no scopes"),
        (["--client", "claude.ai", "--scope", "read", "--scope", "write"], "allowed", "client claude.ai with read, write"),
        (["--client", "other", "--scope", "read"], "forbidden", "client other with read"),
    ],
)
def test_client_can_be_described(explain, explained, arguments: list[str], outcome: str, described: str) -> None:
    rule = {"allow": {"and": [{"client": "claude.ai"}, {"scope": "read"}]}}
    keys = {"mcp": {"scopes": {"read": "Read"}}, "policy": [rule]}
    described_user = [APP, "--user", "ann@corp.com", *arguments]
    found = explained(*described_user, policy=[{"from": APP, **UPSTREAM, **keys}])
    assert found["outcome"] == outcome
    assert explain(*described_user, policy=[{"from": APP, **UPSTREAM, **keys}]).splitlines()[0].endswith(described)
    with pytest.raises(CommandError, match="need"):
        explain(APP, "--client", "claude.ai")
    with pytest.raises(CommandError, match="need"):
        explain(APP, "--user", "ann@corp.com", "--scope", "read")


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        (["--mcp-tool", "search"], "allowed"),
        (["--mcp-tool", "delete"], "forbidden"),
        (["--mcp-method", "tools/list"], "allowed"),
        (["--mcp-resource", "docs://a"], "allowed"),
        (["--mcp-prompt", "review"], "allowed"),
        (["--method", "POST"], "forbidden"),
        ([], "allowed"),
    ],
)
def test_mcp_message_can_be_described(explain, explained, arguments: list[str], outcome: str) -> None:
    keys = {"mcp": {}, "allowed_domains": ["corp.com"], "policy": [{"deny": {"mcp_tool": {"not_in": ["search"]}}}]}
    found = explained(APP, "--user", "ann@corp.com", *arguments, policy=[{"from": APP, **UPSTREAM, **keys}])
    assert found["outcome"] == outcome
    text = explain(APP, "--user", "ann@corp.com", *arguments, policy=[{"from": APP, **UPSTREAM, **keys}])
    assert not arguments or arguments[-1] in text.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        (["/open"], "allowed"),
        (["/x"], "sign in"),
        (["/x", "--user", "ann@corp.com"], "allowed"),
        (["/x", "--user", "ANN@CORP.COM"], "allowed"),
        (["/x", "--user", "ann@corp.com", "--claim", "email_verified=false"], "forbidden"),
        (["/x", "--user", "ann@else.com"], "forbidden"),
        (["/x", "--user", "ann@else.com", "--group", "sales", "--group", "eng"], "allowed"),
        (["/x", "--user", "ann@else.com", "--claim", "groups=eng"], "allowed"),
        (["/boss/", "--user", "boss@corp.com"], "allowed"),
        (["/boss/", "--user", "oidc/7"], "allowed"),
        (["/boss/", "--user", "okta/7"], "forbidden"),
        (["/boss/", "--user", "oidc/eight"], "allowed"),
        (["/boss/", "--user", "eight"], "allowed"),
        (["/boss/", "--user", "eight@corp.com"], "forbidden"),
        (["/claims", "--user", "ann", "--claim", "level=3"], "allowed"),
        (["/claims", "--user", "ann", "--claim", 'level="3"'], "forbidden"),
        (["/claims", "--user", "ann", "--claim", "level=2", "--claim", "level=3"], "allowed"),
        (["/claims", "--user", "ann", "--claim", 'realm={"roles": ["dev", "ops"]}'], "allowed"),
        (["/claims", "--user", "ann", "--claim", "realm.roles=ops"], "allowed"),
        (["/claims", "--user", "seven"], "allowed"),
        (["/closed", "--user", "boss@corp.com"], "forbidden"),
        (["/%2Fopen", "--user", "ann@corp.com"], "bad request"),
    ],
)
def test_the_outcome_is_that_of_the_rules(explained, arguments: list[str], outcome: str) -> None:
    path, *user_arguments = arguments
    found = explained(APP + path, *user_arguments)
    assert (found["outcome"], found["allowed"]) == (outcome, outcome == "allowed")


TUNNELS = [
    {"from": "tcp+https://app.example.com:5432", "to": "tcp://127.0.0.1:1", "allowed_groups": ["eng"]},
    {"from": "tcp+https://app.example.com:6379", "to": "tcp://127.0.0.1:1", "allowed_users": ["service_account/backup"]},
    {"from": APP, **UPSTREAM, "allow_public_unauthenticated_access": True},
]


@pytest.mark.parametrize(
    ("port", "user_arguments", "outcome", "keys"),
    [
        (5432, ["--user", "ann@corp.com", "--group", "eng"], "allowed", ["policy[0]"]),
        (5432, ["--user", "ann@corp.com", "--group", "sales"], "forbidden", ["policy[0]"]),
        (5432, [], "sign in", ["policy[0]"]),
        (6379, ["--user", "service_account/backup"], "allowed", ["policy[1]"]),
        (6379, ["--user", "service_account/other"], "forbidden", ["policy[1]"]),
        (443, ["--user", "ann@corp.com"], "no route", []),
    ],
)
def test_tunnel_is_checked_by_the_from_of_its_route(
    explained, explain, port: int, user_arguments: list[str], outcome: str, keys: list[str]
) -> None:
    url = f"tcp+https://app.example.com:{port}"
    found = explained(url, *user_arguments, policy=TUNNELS)
    assert (found["request"]["method"], found["outcome"]) == ("CONNECT", outcome)
    assert [route["key"] for route in found["routes"] if route["matches"]] == keys
    assert explain(url, *user_arguments, policy=TUNNELS).startswith(f"CONNECT app.example.com:{port}/, ")


def test_a_host_without_routes_is_no_route(explained) -> None:
    found = explained("https://nowhere.test/")
    assert (found["outcome"], found["routes"], found["route"], found["rules"]) == ("no route", [], None, [])


def test_complete_trace_is_available_in_json(explained) -> None:
    found = explained(f"{APP}/x/../y?secret=1", "--user", "ann@else.com", "--group", "sales", "--method", "POST")
    assert found["request"] == {"method": "POST", "host": "app.example.com", "path": "/y", "source_ip": ""}
    assert found["user"] == {
        "user_id": "", "email": "ann@else.com", "email_verified": True, "groups": ["sales"], "claims": {"email": ["ann@else.com"]},
        "hypothetical": True,
    }  # fmt: skip
    assert [(route["key"], route["mismatches"]) for route in found["routes"]] == [
        ("policy[0]", ["path: /y is not /open"]),
        ("policy[1]", ["prefix: /y does not begin with /preflight"]),
        ("policy[2]", ["prefix: /y does not begin with /boss"]),
        ("policy[3]", ["prefix: /y does not begin with /claims"]),
        ("policy[4]", ["prefix: /y does not begin with /closed"]),
        ("policy[5]", []),
    ]
    assert found["route"] == found["routes"][-1]["id"]
    assert (found["rules"][0]["actual"], found["rules"][0]["expected"]) == ("sales", "one of eng")
    assert [{key: rule[key] for key in ("rule", "holds", "reason")} for rule in found["rules"]] == [
        {"rule": "allowed_groups", "holds": False, "reason": Reason.GROUP_NOT_LISTED.value},
        {"rule": "allowed_domains", "holds": False, "reason": Reason.DOMAIN_NOT_LISTED.value},
    ]
    assert join_list([Reason.GROUP_NOT_LISTED.value, Reason.DOMAIN_NOT_LISTED.value]) in found["reason"]


def test_user_output_matches_text(explain) -> None:
    lines = explain(f"{APP}/boss/1", "--user", "oidc/8", "--group", "a", "--group", "b").splitlines()
    expected = [
        r"GET app.example.com/boss/1, hypothetically .* oidc/8, groups a, b",
        "",
        r"Routes .*:",
        r"  policy\[0\] https://app.example.com, path /open: .* not .*",
        r"      path: /boss/1 .* /open",
        r"  policy\[1\] https://app.example.com, prefix /preflight: .* not .*",
        r"      prefix: /boss/1 .* /preflight",
        r"  policy\[2\] \(Administration\) https://app.example.com, prefix /boss: matches",
        "",
        r"Rules.*:",
        f"  unknown allowed_users: {Reason.EMAIL_NOT_USABLE.value}",
        r"          .* oidc/8, 8, .*: one of boss@corp.com, eight, oidc/7",
        "",
        f"Outcome: forbidden.*: {Reason.EMAIL_NOT_USABLE.value}\\.",
        "",
        r".*:",
        r"  allowed_users: one of boss@corp.com, eight, oidc/7",
    ]
    assert [line for line, pattern in zip(lines, expected, strict=True) if not re.fullmatch(pattern, line)] == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "not signed in"),
        (["--user", "ann@corp.com"], "signed in as ann@corp.com, no groups"),
        (["--user", "oidc/7", "--claim", "email=ann@corp.com"], "signed in as ann@corp.com = oidc/7, no groups"),
        (["--user", "a@corp.com", "--claim", "email_verified=false"], "a@corp.com, an address that"),
        (["--user", "a@b@corp.com"], "an address that matches"),
    ],
)
def test_text_names_the_user(explain, arguments: list[str], text: str) -> None:
    assert text in explain(f"{APP}/x", *arguments).splitlines()[0]


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("https://app.example.com", "app.example.com", "/"),
        ("https://APP.example.com:443/a#b", "app.example.com", "/a"),
        ("https://app.example.com:8443/", "app.example.com:8443", "/"),
        ("http://app.example.com/", "app.example.com:80", "/"),
        ("https://bücher.example/ü b", "xn--bcher-kva.example", "/%C3%BC%20b"),
        ("https://[::1]:99/", "[::1]:99", "/"),
    ],
)
def test_a_url_is_read_as_a_browser_would_send_it(explained, tmp_path: Path, url: str, host: str, path: str) -> None:
    files = certificate_files(tmp_path, "auth.example.com")
    request = explained(url, insecure_server=None, certificate_file=str(files.certificate), certificate_key_file=str(files.key))["request"]
    assert (request["host"], request["path"]) == (host, path)


def test_behind_a_balancer_port_80_is_a_default_port_too(explained) -> None:
    assert explained("http://app.example.com/open", insecure_server=True)["outcome"] == "allowed"


@pytest.mark.parametrize(
    ("path", "text"),
    [("/.gate/", "This path is reserved"), ("/ping", "This path is reserved")],
)
def test_gate_endpoints_are_reported(explain, path: str, text: str) -> None:
    assert text in explain(APP + path)


def test_a_health_path_that_is_the_applications_is_not_gates(explain) -> None:
    assert "reserved for gate" not in explain(f"{APP}/ping", health_paths_on_routes=False)
    assert "reserved for gate" in explain("https://auth.example.com/ping", health_paths_on_routes=False)


def test_authenticate_host_is_reported(explain) -> None:
    assert "authenticate host" in explain("https://auth.example.com/")
    assert "reserved for gate" not in explain(f"{APP}/x")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["app.example.com/x"], "must be a URL"),
        (["ftp://app.example.com/"], "must be a URL"),
        (["https://"], "must be a URL"),
        (["https://ann@app.example.com/"], "must be a URL"),
        (["https://app.example.com/\n"], "must be a URL"),
        (["https://app.example.com:99999/"], "invalid URL"),
        (["https://app..example.com/"], "invalid URL"),
        (["https://[::1/"], "invalid URL"),
        (["https://app.example.com/a%zz"], "two hexadecimal digits"),
        (["https://app.example.com/a%00"], "control character"),
        (["https://app.example.com/", "--group", "eng"], "--granted-tool describe a user"),
        (["https://app.example.com/", "--user", "oidc/"], "--user 'oidc/' must have"),
        (["https://app.example.com/", "--claim", "a=b"], "--granted-tool describe a user"),
        (["https://app.example.com/", "--user", "ann", "--claim", "a"], "must be name=value"),
        (["https://app.example.com/", "--user", "ann", "--claim", "=b"], "must be name=value"),
    ],
)
def test_error_is_one_clear_line(explain, arguments: list[str], text: str) -> None:
    with pytest.raises(CommandError) as error:
        explain(*arguments)
    assert text in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.returncode == 1


def test_invalid_configuration_is_one_clear_line() -> None:
    problems = ConfigError([Problem("policy[3].from", "is missing", 7), Problem("address", "is wrong")])
    with override_settings(GATE_OPTIONS=None, GATE_CONFIG_ERROR=problems), pytest.raises(CommandError) as error:
        call_command(Command(), "https://app.example.com/")
    for pattern in ("line 7: policy[3].from: is missing", "1 more", "gate check"):
        assert pattern in str(error.value)


def test_uncompilable_routes_are_an_invalid_configuration(explain) -> None:
    with pytest.raises(CommandError, match=r"the configuration has a problem: policy\[0\]"):
        explain(f"{APP}/", policy=[{"from": APP, **UPSTREAM, "allowed_domains": ["not a domain"]}])


POLICY_ROUTE = [
    {
        "from": APP,
        **UPSTREAM,
        "policy": [
            {"allow": {"and": [{"domain": "corp.com"}, {"time_of_day": {"after": "08:00", "before": "18:00"}}, {"session_age": "1h"}]}},
            {"deny": {"or": [{"not": {"source_ip": "10.0.0.0/8"}}, {"http_header/X-Env": {"is": "test"}}]}},
        ],
    }
]
SEEN = ["--user", "ann@corp.com", "--ip", "10.1.2.3", "--header", "X-Env: prod", "--at", "2027-01-15T09:00"]


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        (SEEN, "allowed"),
        ([*SEEN, "--at", "2027-01-15T18:00"], "forbidden"),
        ([*SEEN, "--at", "1800003600"], "allowed"),
        ([*SEEN, "--at", "2027-01-15T09:00+02:00"], "forbidden"),
        ([*SEEN, "--ip", "192.0.2.1"], "forbidden"),
        ([*SEEN, "--session-age", "2h"], "forbidden"),
        ([*SEEN, "--header", "X-Env: prod"], "forbidden"),
        (SEEN[2:], "sign in"),
    ],
)
def test_policy_inputs_can_be_specified(explained, arguments: list[str], outcome: str) -> None:
    found = explained(f"{APP}/x", *arguments, policy=POLICY_ROUTE)
    assert found["outcome"] == outcome


@pytest.mark.parametrize(
    "invalid",
    [["--ip", "10.0.0"], ["--header", "prod"], ["--at", "noon"], ["--session-age", "old"], ["--cert", "/nowhere"]],
    ids=lambda invalid: invalid[0],
)
def test_a_fact_that_makes_no_sense_is_refused(explain, invalid: list[str]) -> None:
    with pytest.raises(CommandError, match=invalid[0]):
        explain(f"{APP}/x", *invalid)


def test_a_client_certificate_is_verified_as_for_a_request(explained, tmp_path: Path) -> None:
    files, clients = certificate_files(tmp_path, "app.example.com"), authority()
    (tmp_path / "clients.pem").write_bytes(clients.pem)
    tls = {"insecure_server": None, "certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}
    policy = [{"from": APP, **UPSTREAM, "allow_public_unauthenticated_access": True, "tls_downstream_client_ca_file": "clients.pem"}]
    valid, bad = (str(each.write(tmp_path)) for each in (clients.issue(), authority().issue()))
    assert explained(f"{APP}/", "--cert", valid, policy=policy, **tls)["outcome"] == "allowed"
    assert explained(f"{APP}/", "--cert", bad, policy=policy, **tls)["outcome"] == "client certificate"
    assert explained(f"{APP}/", "--cert", valid, "--at", "2099-01-01", policy=policy, **tls)["outcome"] == "client certificate"
    assert explained(f"{APP}/", policy=policy, **tls)["outcome"] == "client certificate"


def test_a_decision_that_was_made_is_explained_by_its_request_id(explain, database: None, tmp_path: Path) -> None:
    log_decision(tmp_path, "r1", user("bob@corp.com"))
    text = explain("--request", "r1")
    assert "Outcome: forbidden" in text
    assert "bob@corp.com" in text
    assert "session, changed" in text
    with pytest.raises(CommandError, match="no request r2"):
        explain("--request", "r2")


@pytest.mark.parametrize(
    "where",
    [
        {"grpc_address": "127.0.0.1:9"},
        {"grpc_address": ""},
        {"databroker_service_url": "http://127.0.0.1:9", "grpc_client_timeout": "200ms"},
    ],
)
def test_records_that_cannot_be_read_are_an_error(explain, where: dict[str, Any]) -> None:
    with pytest.raises(CommandError, match=r"--user: .*Add --hypothetical") as error:
        explain(f"{APP}/x", "--user", "ann@corp.com", is_recorded=True, **where)
    assert error.value.returncode == 1
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("arguments", [[], [APP, "--request", "r1"]])
def test_either_a_url_or_a_request_is_explained(explain, arguments: list[str]) -> None:
    with pytest.raises(CommandError, match="--request"):
        explain(*arguments)


def test_access_for_a_while_can_be_described(explain, explained) -> None:
    policy = [{"from": APP, **UPSTREAM, "policy": {"allow": {"granted": True}}}]
    assert explained(f"{APP}/", "--user", "ann@corp.com", "--granted", policy=policy)["outcome"] == "allowed"
    assert explained(f"{APP}/", "--user", "ann@corp.com", policy=policy)["outcome"] == "forbidden"
    assert explained(f"{APP}/", "--user", "service_account/ci", "--granted", policy=policy)["outcome"] == "forbidden"
    assert explained(f"{APP}/", "--user", "google/1", "--granted", policy=policy)["outcome"] == "forbidden"
    with pytest.raises(CommandError, match="--granted-tool describe a user"):
        explain(f"{APP}/", "--granted", policy=policy)


def test_access_to_a_tool_can_be_described(explain, explained) -> None:
    policy = [{"from": APP, **UPSTREAM, "mcp": {}, "policy": {"allow": {"granted": True}}}]
    call = (f"{APP}/", "--user", "ann@corp.com", "--mcp-tool", "delete_repo")
    for tools, outcome in (((), "forbidden"), (("search",), "forbidden"), (("search", "delete_repo"), "allowed")):
        described = [part for tool in tools for part in ("--granted-tool", tool)]
        assert explained(*call, *described, policy=policy)["outcome"] == outcome
    with pytest.raises(CommandError, match="--granted-tool describe a user"):
        explain(f"{APP}/", "--granted-tool", "search", policy=policy)
