"""Demo state that persists between runs, and the configuration that the demo writes."""

from datetime import UTC, datetime
from pathlib import Path

from config.loader import load_options
from examples.demo.configuration import Folder, Ports, default_folder, write_config
from examples.demo.people import ECHO, ECHO_AUTHORITY, SITES

PORTS = Ports(gate=8443, provider=9400)
UPSTREAMS = {site.name: 10_000 + number for number, site in enumerate(SITES)} | {ECHO: 7}


def test_gate_accepts_the_written_configuration(tmp_path: Path) -> None:
    options = load_options(write_config(Folder.prepare(tmp_path / "demo"), PORTS, UPSTREAMS), {})
    assert [route.from_.host for route in options.policy] == [*(site.host for site in SITES), "hello.localhost"]
    assert [str(route.from_) for route in options.policy if route.is_tcp] == [f"tcp+https://{ECHO_AUTHORITY}"]
    assert options.signing_key is not None


def test_secrets_and_authority_survive_a_restart(tmp_path: Path) -> None:
    first = write_config(Folder.prepare(tmp_path / "demo"), PORTS, UPSTREAMS).read_bytes()
    authority = (tmp_path / "demo" / "ca.pem").read_bytes()
    assert write_config(Folder.prepare(tmp_path / "demo"), PORTS, UPSTREAMS).read_bytes() == first
    assert (tmp_path / "demo" / "ca.pem").read_bytes() == authority


def test_demo_files_are_private(tmp_path: Path) -> None:
    folder = Folder.prepare(tmp_path / "gate" / "demo")
    write_config(folder, PORTS, UPSTREAMS)
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "gate", folder.path)] == [0o700, 0o700]
    assert {file.name: file.stat().st_mode & 0o077 for file in folder.path.iterdir()} == dict.fromkeys(
        (file.name for file in folder.path.iterdir()), 0
    )


def test_a_lapsed_certificate_is_replaced_under_the_same_authority(tmp_path: Path) -> None:
    folder = Folder.prepare(tmp_path / "demo", datetime(2020, 1, 1, tzinfo=UTC))
    lapsed, authority = folder.certificate_file.read_bytes(), folder.ca_file.read_bytes()
    Folder.prepare(tmp_path / "demo", datetime(2021, 6, 1, tzinfo=UTC))
    assert folder.certificate_file.read_bytes() != lapsed
    assert folder.ca_file.read_bytes() == authority


def test_the_folder_is_below_the_data_home(tmp_path: Path) -> None:
    assert default_folder({"XDG_DATA_HOME": "/data", "HOME": "/home/ann"}) == Path("/data/gate/demo")
    assert default_folder({"HOME": "/home/ann"}) == Path("/home/ann/.local/share/gate/demo")
