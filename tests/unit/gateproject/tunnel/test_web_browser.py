"""The browser is started without the command's standard streams, and its absence is reported."""

import asyncio
import sys
from pathlib import Path

import pytest

from gateproject.tunnel.tls_connection import TunnelError
from gateproject.tunnel.web_browser import open_browser
from tests.support.children import clean_environment
from tests.support.eventually import PATIENCE, eventually

URL = "http://127.0.0.1:1/start/abc"


def browser(directory: Path, script: str) -> dict[str, str]:
    file = directory / "browser"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return clean_environment(BROWSER=f"{file} %s")


async def test_browser_gets_the_url_alone(tmp_path: Path, capfd) -> None:
    await open_browser(URL, browser(tmp_path, f'echo "$# $1" | tee {tmp_path}/opened; echo noise >&2; cat >> {tmp_path}/opened'))
    assert (tmp_path / "opened").read_text() == f"1 {URL}\n"
    assert capfd.readouterr() == ("", "")


async def test_modules_of_the_working_directory_are_not_imported(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "webbrowser.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    await open_browser(URL, browser(tmp_path, "exit 0"))


@pytest.mark.parametrize("script", ["exit 1", "kill $$"])
async def test_browser_that_fails_is_reported(tmp_path: Path, script: str) -> None:
    with pytest.raises(TunnelError, match="Use --no-browser"):
        await open_browser(URL, browser(tmp_path, script))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems need no display")
async def test_session_without_a_display_starts_no_browser() -> None:
    environment = clean_environment(DISPLAY="", WAYLAND_DISPLAY="", BROWSER="")
    with pytest.raises(TunnelError, match=r"no display .* Use --no-browser"):
        await open_browser(URL, environment)


async def test_cancelled_sign_in_does_not_wait_for_the_browser(tmp_path: Path) -> None:
    environment = browser(tmp_path, f"touch {tmp_path}/started; exec sleep 1")
    opening = asyncio.ensure_future(open_browser(URL, environment))
    await eventually((tmp_path / "started").exists)
    opening.cancel()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(asyncio.CancelledError):
            await opening
