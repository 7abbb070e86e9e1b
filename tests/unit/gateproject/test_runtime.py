"""How a new configuration takes over, seen from within; from without: tests/integration/test_reload.py."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from authenticate.directory.service import DirectoryService
from authenticate.service import AuthenticateService
from gateproject import runtime
from gateproject.config.source import ConfigSource
from gateproject.runtime import Runtime
from tests.support.options import make_options

SOON = 10.0  # seconds; a bound for what must happen, never a measure


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(runtime, "made_beside_requests", nullcontext)
    monkeypatch.setattr(runtime, "settings", SimpleNamespace())
    monkeypatch.setattr(AuthenticateService, "start", nothing)
    monkeypatch.setattr(AuthenticateService, "stop", nothing)
    monkeypatch.setattr(runtime, "configure_logs", lambda *_, **__: None)
    make_options(tmp_path)
    source = ConfigSource(tmp_path / "config.yaml", {})
    return Runtime(source.load(), source)


async def test_what_is_carried_is_judged_anew_while_the_directory_still_hands_its_work_over(
    running: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells the store, which may be slow; nobody whose access the new policy has withdrawn goes on meanwhile."""
    is_handing_over = asyncio.Event()

    async def for_ever(*_: object) -> None:
        is_handing_over.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(DirectoryService, "stop", for_ever)
    streams = running._carrying.streams
    before = streams.changes
    reload = asyncio.create_task(running.reload())
    async with asyncio.timeout(SOON):
        await is_handing_over.wait()
    reload.cancel()
    assert streams.changes == before + 1


async def test_the_configuration_is_followed_after_a_reload_that_failed_in_some_other_way(
    running: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, again = [], asyncio.Event()

    def fails() -> None:
        failed.append(1)
        if len(failed) == 2:
            again.set()
        raise OSError("too many open files")

    monkeypatch.setattr(runtime, "LOOK_EVERY", 0)
    monkeypatch.setattr(ConfigSource, "has_changed", lambda self: True)
    monkeypatch.setattr(ConfigSource, "load", lambda self: fails())
    world = running.world
    following = asyncio.create_task(running._follow_configuration())
    with capture_logs() as logs:
        async with asyncio.timeout(SOON):
            await again.wait()
    following.cancel()
    assert logs[0]["event"] == "the configuration could not be reloaded"
    assert running.world is world
