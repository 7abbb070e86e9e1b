"""Child processes of the demo: ports that are free or named, exits that are noticed, and captured output."""

import os
import socket
import sys
from pathlib import Path

import pytest

from examples.demo.children import Child, DemoError, require_free_port
from tests.support.children import free_port


async def start(tmp_path: Path, program: str, **options: bool) -> Child:
    command = (sys.executable, "-c", program)
    return await Child.start("helper", command, folder=tmp_path, log_file=tmp_path / "helper.log", environ=os.environ, **options)


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_taken_port_is_named_with_the_setting_that_changes_it(family: socket.AddressFamily, address: str) -> None:
    try:
        listening = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip(f"no {address} here")
    with listening:
        port = listening.getsockname()[1]
        with pytest.raises(DemoError, match=rf"port {port} for gate is taken .* make demo PORT={port + 1}"):
            require_free_port(port, "gate", "PORT")


def test_a_free_port_is_left_free() -> None:
    port = free_port()
    require_free_port(port, "gate", "PORT")
    with socket.create_server(("127.0.0.1", port)) as server:
        assert server.getsockname()[1] == port


async def test_child_without_announcement_is_an_error_with_its_last_output(tmp_path: Path) -> None:
    child = await start(tmp_path, "import sys; sys.exit('no such luck')", announces=True)
    with pytest.raises(DemoError, match="helper did not start:\n    no such luck"):
        await child.announcement()
    await child.stop()


async def test_end_of_child_is_reported_with_its_last_output(tmp_path: Path) -> None:
    child = await start(tmp_path, "import sys; sys.exit('out of luck')")
    assert "helper ended by itself (status 1)" in str(error := await child.ended())
    assert "out of luck" in str(error)


async def test_stray_settings_in_the_environment_do_not_reach_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADDRESS", "0.0.0.0:1")
    child = await start(tmp_path, "import json, os; print(json.dumps({'address': os.environ.get('ADDRESS')}))", announces=True)
    assert await child.announcement() == {"address": None}
    await child.stop()
