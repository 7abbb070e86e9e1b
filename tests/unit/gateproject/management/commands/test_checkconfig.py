"""`checkconfig` prints every problem and says by its exit whether there is one."""

from io import StringIO
from pathlib import Path

import pytest
import yaml

from gateproject.management.commands.checkconfig import Command
from tests.support.options import MINIMAL


def check(*arguments: str) -> tuple[int, str]:
    out = StringIO()
    command = Command(stdout=out, stderr=out)
    parsed = command.create_parser("manage.py", "checkconfig").parse_args(arguments)
    try:
        command.handle(**vars(parsed))
    except SystemExit as end:
        return int(str(end.code)), out.getvalue()
    return 0, out.getvalue()


@pytest.mark.parametrize("option", ["-config", "--config"])
def test_a_right_configuration_exits_0(tmp_path: Path, option: str) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(MINIMAL))
    assert check(option, str(tmp_path / "config.yaml")) == (0, "The configuration has no problems.\n")


def test_every_problem_is_printed_with_its_place_and_the_exit_is_1(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**MINIMAL, "services": "x", "cooky_name": "x"}, sort_keys=False))
    code, printed = check("-config", str(tmp_path / "config.yaml"))
    assert code == 1
    assert f"line {len(MINIMAL) + 1}: services: must be one of" in printed
    assert f"line {len(MINIMAL) + 2}: cooky_name: is not a setting; did you mean cookie_name?" in printed


def test_without_a_name_the_file_of_the_environment_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE_CONFIG", str(tmp_path / "missing.yaml"))
    code, printed = check()
    assert code == 1
    assert "missing.yaml" in printed
