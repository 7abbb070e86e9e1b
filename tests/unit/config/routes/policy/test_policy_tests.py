"""A policy test is checked like any other setting, wherever it is written."""

from pathlib import Path
from typing import Any

import pytest

from config.routes.policy.policy_tests import read_policy_test_file
from foundation.values import WatchedFile
from tests.unit.config.conftest import Load, Problems

VALID = {"url": "https://app.example.com/", "expect": "allow", "user": "ann@example.com"}


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({"expect": "alow"}, "expect", "must be one of allow, refuse, sign-in, step-up, no-route"),
        ({"expect": None}, "expect", "must be one of"),
        ({"usr": "x"}, "usr", "mean user?"),
        ({"claims": ["x"]}, "claims", "must be a map"),
        ({"route": -1}, "route", "must be text"),
        ({"source_ip": "a.example.com"}, "source_ip", "an IP address"),
        ({"headers": {"a b": "x"}}, "headers", "invalid header name: use"),
        ({"client_certificate": "bad"}, "client_certificate", "must be good, none, untrusted, or a map"),
        ({"client_certificate": {}}, "client_certificate", "must be good, none, untrusted, or a map"),
        ({"client_certificate": {"fingerprint": "12"}}, "client_certificate", "64 hexadecimal digits"),
        ({"client_certificate": {"spki": "12"}}, "client_certificate", "44 characters"),
        ({"mcp": {}}, "mcp", "needs a method"),
        ({"mcp": {"method": "tools/call", "tool": "a", "prompt": "b"}}, "mcp", "one of tool"),
        ({"mcp": {"method": "tools/list", "tool": "a"}}, "mcp.tool", "tools/call"),
        ({"mcp": {"method": "tools/call", "resource": "a:b"}}, "mcp.resource", "resources/read"),
        ({"mcp": {"tol": "a"}}, "mcp.tol", "mean tool?"),
        ({"scopes": ["read"]}, "scopes", "Set `client`"),
        ({"client": ""}, "client", "must not be empty"),
        ({"route": 0, "expect": "no-route"}, "route", "cannot be combined with"),
    ],
)
def test_invalid_test_is_a_problem(problems: Problems, changes: dict[str, Any], key: str, message: str) -> None:
    found = problems(policy_tests=[VALID, {**VALID, **changes}])
    assert message in found[f"policy_tests[1].{key}"]


def test_groups_and_claims_need_a_user(problems: Problems) -> None:
    test = {"url": "https://a/", "expect": "allow", "groups": ["g"], "claims": {"a": 1}, "client": "build-agent"}
    assert set(problems(policy_tests=[test])) == {f"policy_tests[0].{key}" for key in ("groups", "claims", "client")}


def test_tests_of_both_places_are_one_list(load: Load, tmp_path: Path) -> None:
    (tmp_path / "tests.yaml").write_text("- {url: https://b.example.com/, expect: refuse}\n")
    options = load(policy_tests=[VALID], policy_tests_file="tests.yaml")
    assert [(path, test.expect) for path, test in options.all_policy_tests] == [
        (("policy_tests", 0), "allow"),
        (("policy_tests_file", 0), "refuse"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "key", "message"),
    [
        ("t.yaml", b"- {url: https://b/, expect: no}", ("policy_tests_file", 0, "expect"), "must be one of"),
        ("t.yaml", b"a: 1", ("policy_tests_file",), "must contain a list"),
        ("t.yaml", b"policy_tests: 1", ("policy_tests_file", "policy_tests"), "must contain a list"),
        ("t.yaml", b"- 5", ("policy_tests_file", 0), "must be a map"),
        ("t.yaml", b"- {url: a, url: b, expect: allow}", ("policy_tests_file", 0, "url"), "duplicate"),
        ("t.yaml", b"a: [", ("policy_tests_file",), "(line 2)"),
        ("t.txt", b"", ("policy_tests_file",), "has an unsupported file"),
        ("t.json", b"\xff", ("policy_tests_file",), "UTF-8"),
    ],
)
def test_invalid_file_reports_location(name: str, content: bytes, key: tuple[str | int, ...], message: str) -> None:
    found = {finding[0]: finding[1] for finding in read_policy_test_file(WatchedFile(Path(name), content)).findings}
    assert message in found[key]


def test_a_problem_of_the_file_refuses_the_configuration(problems: Problems, tmp_path: Path) -> None:
    (tmp_path / "tests.yaml").write_text("- {url: https://b.example.com/}\n")
    assert problems(policy_tests_file="tests.yaml") == {"policy_tests_file[0].expect": "is required"}
