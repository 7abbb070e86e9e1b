"""`checkconfig` prints every problem, and sets its exit status."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateproject.management.commands.checkconfig import ALL_CONFIG_CHECKS, Command
from gateproject.process.config_report import KINDS
from tests.support.options import MINIMAL

STRONG = {
    **MINIMAL,
    "cookie_secret": "cJ2sXq0n0c0m3H6wT1oQe9l5g7u8yBvKxZr4dFtPAhE=",
    "shared_secret": "v9Yq3m1Zk8Xw5Lr7Td2Bf6Hj4Np0Gs+QcVbEuIoAyKM=",
}


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def check(*arguments: str, out: StringIO | None = None) -> tuple[int, str]:
    out = out or StringIO()
    command = Command(stdout=out, stderr=out)
    parsed = command.create_parser("manage.py", "checkconfig").parse_args(arguments)
    try:
        command.handle(**vars(parsed))
    except SystemExit as end:
        return int(str(end.code)), out.getvalue()
    return 0, out.getvalue()


def write(directory: Path, **settings: Any) -> str:
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump({**STRONG, **settings}, sort_keys=False))
    return str(path)


@pytest.mark.parametrize("option", ["-config", "--config"])
def test_a_right_configuration_exits_0(tmp_path: Path, option: str) -> None:
    assert check(option, write(tmp_path)) == (0, "The configuration has no problems: 0 routes.\n")


def test_every_problem_is_printed_with_its_place_and_the_exit_is_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write(
        tmp_path, services="x", cooky_name="x", allowed_users=["x"], policy=[{"from": "https://a", "to": "http://b", "Prefix": "/"}]
    )
    code, printed = check("-config", path)
    line = len(STRONG) + 1
    assert code == 1
    assert f"config.yaml:{line}:1: error: services: must be one of" in printed
    assert f"config.yaml:{line + 1}:1: error: cooky_name: unknown setting" in printed
    assert f"config.yaml:{line + 2}:1: error: allowed_users: is a route key" in printed
    assert f"config.yaml:{line + 7}:3: error: policy[0].Prefix: unknown setting" in printed
    assert printed.endswith("\n4 errors, 0 warnings\n")


def test_warnings_fail_only_if_it_is_strict(tmp_path: Path) -> None:
    path = write(tmp_path, gate_debug=True)
    assert check("-config", path)[0] == 0
    code, printed = check("-config", path, "--strict")
    assert code == 1
    assert "warning: gate_debug" in printed
    assert check("-config", write(tmp_path), "--strict")[0] == 0


def test_a_failing_policy_test_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, policy_tests=[{"url": "https://a.example.com/", "expect": "allow"}])
    code, printed = check("-config", path)
    assert code == 1
    assert "policy_tests[0]: fails: expected allow, got no-route" in printed


@pytest.mark.parametrize("chosen", ["json", "sarif"])
def test_programmatic_output_is_the_same(tmp_path: Path, chosen: str) -> None:
    code, printed = check("-config", write(tmp_path, services="x"), "--format", chosen)
    assert code == 1
    assert "must be one of" in json.dumps(json.loads(printed))


def test_colours_are_for_terminals_that_want_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, services="x")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" not in check("-config", path)[1]
    assert "\x1b[31m" in check("-config", path, out=Terminal())[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in check("-config", path, out=Terminal())[1]


def test_without_a_name_the_file_of_the_environment_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_CONFIG", str(tmp_path / "missing.yaml"))
    code, printed = check()
    assert code == 1
    assert "missing.yaml" in printed


def test_a_problem_of_the_environment_names_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COOKIE_SECURE", "perhaps")
    code, printed = check("-config", write(tmp_path))
    assert code == 1
    assert printed.startswith("environment: error: COOKIE_SECURE: ")


def test_every_kind_of_problem_is_explained() -> None:
    assert {config_check.kind for config_check in ALL_CONFIG_CHECKS} | {"invalid-configuration", "no-answer"} == set(KINDS)
