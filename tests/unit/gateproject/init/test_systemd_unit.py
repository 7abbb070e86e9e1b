"""The unit runs the installed gate; paths that systemd cannot access are rejected."""

from pathlib import Path

import pytest

from gateproject.init.systemd_unit import next_steps, systemd_unit, write_unit


def test_unit_runs_this_binary_with_this_configuration() -> None:
    unit = systemd_unit(Path("/usr/bin/gate"), Path("/srv/config.yaml"))
    assert "\nExecStartPre=/usr/bin/gate check --config /srv/config.yaml\n" in unit
    assert "\nExecStart=/usr/bin/gate run --config /srv/config.yaml\n" in unit
    assert "\nStateDirectory=gate/gate\n" in unit


@pytest.mark.parametrize(
    ("program", "configuration", "problem"),
    [
        ("/home/alice/venv/bin/gate", "/etc/gate/config.yaml", "ProtectHome"),
        ("/opt/gate/bin/gate", "/root/config.yaml", "ProtectHome"),
        ("/opt/my gate/bin/gate", "/etc/gate/config.yaml", "spaces"),
        ("/opt/gate/bin/gate", "/etc/%h/config.yaml", "%"),
    ],
)
def test_a_path_that_the_unit_can_not_use_is_refused(program: str, configuration: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        systemd_unit(Path(program), Path(configuration))


def test_a_unit_that_is_there_stays(tmp_path: Path) -> None:
    unit = tmp_path / "gate.service"
    write_unit(unit, "first")
    with pytest.raises(FileExistsError):
        write_unit(unit, "second")
    assert (unit.read_text(), unit.stat().st_mode & 0o777) == ("first", 0o644)
    assert "enable --now gate" in next_steps(unit, Path("/etc/gate/config.yaml"))
