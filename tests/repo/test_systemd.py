"""systemd accepts and rates the unit, and the unit makes the directories writable to which the examples write."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.options import parse_options

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "systemd" / "gate@.service"
MAX_EXPOSURE = 2.5  # of 10, as systemd-analyze counts: it begins to call that a medium exposure at 5


def analyzed(*arguments: str | Path) -> str:
    command = ["systemd-analyze", *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30)
    assert done.returncode == 0, done.stdout
    return done.stdout


def writable_for(instance: str) -> Path:
    """Return the directories that the unit makes writable."""
    (state,) = re.findall(r"^StateDirectory=(.+)$", UNIT.read_text(), re.MULTILINE)
    return Path("/var/lib") / state.replace("%i", instance)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*/*.yaml")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_example_writes_where_the_unit_lets_it(path: Path) -> None:
    configs = [config for config in yaml.safe_load_all(path.read_text()) if config]
    named = [str(value) for config in configs for key, value in config.items() if key in ("data_dir", "autocert_dir")]
    outside = [value for value in named if value.startswith("/var/") and not Path(value).is_relative_to(writable_for(path.stem))]
    assert outside == []


def test_without_a_data_directory_data_are_where_the_unit_lets_a_process_write() -> None:
    (shared,) = re.findall(r"^Environment=XDG_DATA_HOME=(.+)$", UNIT.read_text(), re.MULTILINE)
    example = (ROOT / "examples" / "kvstore" / "gate.yaml").read_text()
    secrets = {
        "COOKIE_SECRET": "cJ2sXq0n0c0m3H6wT1oQe9l5g7u8yBvKxZr4dFtPAhE=",
        "SHARED_SECRET": "v9Yq3m1Zk8Xw5Lr7Td2Bf6Hj4Np0Gs+QcVbEuIoAyKM=",
    }
    for environment in ({"XDG_DATA_HOME": shared.replace("%i", "gate")}, {"STATE_DIRECTORY": str(writable_for("gate"))}):
        content = yaml.safe_load(example) | {"insecure_server": True, "address": "127.0.0.1:8000", "policy": []}
        minimal = {key: value for key, value in content.items() if not key.endswith("_file") and key != "data_dir"} | {
            "idp_client_secret": "x"
        }
        for key in ("cookie_secret", "shared_secret"):
            minimal.pop(key, None)
        options = parse_options(yaml.safe_dump(minimal).encode(), ".yaml", {**secrets, **environment, "HOME": "/home/gate"}, UNIT.parent)
        assert options.data_dir.is_relative_to(writable_for("gate"))


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """Write the unit with paths that exist here instead of those of an installation."""
    (tmp_path / UNIT.name).write_text(UNIT.read_text().replace("/opt/gate/bin/gate", "/bin/true"))
    return tmp_path / UNIT.name


def test_unit_passes_systemd_analyze(unit: Path) -> None:
    assert [line for line in analyzed("verify", unit).splitlines() if "gate@" in line] == []


def test_systemd_knows_every_key_of_the_unit(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("ProtectClock=", "ProtectClocks="))
    assert "'ProtectClocks' in section" in analyzed("verify", unit), "verify reports unknown keys"


def test_the_unit_exposes_little(unit: Path) -> None:
    """A proxy needs ports, sockets and the network, and callbacks of cffi need memory that is writable and executable."""
    (exposure,) = re.findall(r"Overall exposure level for \S+: ([\d.]+) ", analyzed("security", "--offline=true", "--no-pager", unit))
    assert float(exposure) < MAX_EXPOSURE


def test_unit_has_readiness_and_watchdog() -> None:
    lines = UNIT.read_text().splitlines()
    # Children notify too: with `workers`, the process that systemd started serves no requests.
    assert {"Type=notify", "NotifyAccess=all", "Restart=on-failure", "ExecReload=/bin/kill -HUP $MAINPID"} <= set(lines)
    assert [line for line in lines if line.startswith("WatchdogSec=")] == ["WatchdogSec=60"]


def test_unit_checks_its_command_and_grants_low_ports_as_the_only_root_privilege() -> None:
    output = dict(
        re.findall(r"^(ExecStart|ExecStartPre|User|NoNewPrivileges|UMask|\w*(?:Bounding|Ambient)\w*)=(.+)$", UNIT.read_text(), re.MULTILINE)
    )
    start, check = output.pop("ExecStart"), output.pop("ExecStartPre")
    assert start.endswith("/gate run --config /etc/gate/%i.yaml")
    assert check == start.replace("gate run", "gate check")
    capabilities = {"AmbientCapabilities": "CAP_NET_BIND_SERVICE", "CapabilityBoundingSet": "CAP_NET_BIND_SERVICE"}
    assert output == {"User": "gate", "NoNewPrivileges": "yes", "UMask": "0077", **capabilities}
