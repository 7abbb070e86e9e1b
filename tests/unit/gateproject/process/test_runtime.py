"""Reloads inside the process; with a running gate: tests/integration/test_reload.py."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from authenticate.directory.directory_service import DirectoryService
from authenticate.service import AuthenticateService
from config.config_watcher import ConfigWatcher
from config.options import Options
from databroker.service import DataBrokerService
from foundation.errors import ConfigError, Problem
from foundation.telemetry import metrics
from gateproject.process import runtime
from gateproject.process.metrics_listener import MetricsListener
from gateproject.process.reload import Reload
from gateproject.process.rpc import NoRpc
from gateproject.process.runtime import Runtime
from tests.support.eventually import PATIENCE
from tests.support.options import make_options


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    async def nothing(*_: object, **__: object) -> None:
        pass

    monkeypatch.setattr(runtime, "background_build", nullcontext)
    monkeypatch.setattr(runtime, "settings", SimpleNamespace())
    monkeypatch.setattr("config.config_watcher.SETTLED_SECONDS", 0.0)
    monkeypatch.setattr(AuthenticateService, "start", nothing)
    monkeypatch.setattr(AuthenticateService, "stop", nothing)
    monkeypatch.setattr(runtime, "configure_logs", lambda *_, **__: None)
    make_options(tmp_path)
    source = ConfigWatcher(tmp_path / "config.yaml", {})
    return Runtime(source.load(), source)


async def test_open_streams_are_reevaluated_during_directory_handover(running: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions whose access was revoked end even while the store is slow."""
    is_handing_over = asyncio.Event()

    async def for_ever(*_: object) -> None:
        is_handing_over.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(DirectoryService, "stop", for_ever)
    streams = running._resources.streams
    before = streams.access_change_count
    reload = asyncio.create_task(running.reload())
    async with asyncio.timeout(PATIENCE):
        await is_handing_over.wait()
    reload.cancel()
    assert streams.access_change_count == before + 1


async def test_a_reload_while_the_parts_are_started_comes_after_that(running: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise both would start a part of the new services."""
    happened, may_go_on, is_starting = [], asyncio.Event(), asyncio.Event()

    async def start(*_: object, **__: object) -> None:
        is_starting.set()
        await may_go_on.wait()
        happened.append("started")

    async def reload(_: Runtime) -> None:
        happened.append("reloaded")

    monkeypatch.setattr(DataBrokerService, "start", start)
    monkeypatch.setattr(Runtime, "_reload", reload)
    starting = asyncio.create_task(running._start())
    async with asyncio.timeout(PATIENCE):
        await is_starting.wait()
        reloading = asyncio.create_task(running.reload())
        for _ in range(10):
            await asyncio.sleep(0)
        may_go_on.set()
        await asyncio.gather(starting, reloading)
    assert happened == ["started", "reloaded"]
    await running.stop()


async def test_the_configuration_is_followed_after_a_reload_that_failed_in_some_other_way(
    running: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, again = [], asyncio.Event()

    def fails() -> None:
        failed.append(1)
        if len(failed) == 2:
            again.set()
        raise OSError("too many open files")

    monkeypatch.setattr(runtime, "CONFIG_POLL_INTERVAL", 0)
    monkeypatch.setattr(ConfigWatcher, "has_changed", lambda self: True)
    monkeypatch.setattr(ConfigWatcher, "load", lambda self: fails())
    world = running.services
    following = asyncio.create_task(running._follow_configuration())
    with capture_logs() as logs:
        async with asyncio.timeout(PATIENCE):
            await again.wait()
    following.cancel()
    assert logs[0]["event"] == "configuration reload failed"
    assert running.services is world


async def test_a_file_that_a_reload_reads_already_is_not_read_once_more(running: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "CONFIG_POLL_INTERVAL", 0)
    monkeypatch.setattr(ConfigWatcher, "has_changed", lambda self: pytest.fail("looked at"))
    async with running._reloading:
        following = asyncio.create_task(running._follow_configuration())
        await asyncio.sleep(0.01)
        following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await following


async def test_a_file_that_the_new_configuration_names_has_settled_too(running: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a configuration that was read names it, so what was built of it is built again."""
    still_written, built = [(Path("revoked.pem"), 0.0)], []

    def find_unsettled(_: ConfigWatcher) -> tuple[Path, float] | None:
        return still_written.pop() if built and still_written else None

    monkeypatch.setattr(ConfigWatcher, "find_unsettled", find_unsettled)
    build = running.builder.build
    monkeypatch.setattr(type(running.builder), "build", lambda _, *options: (built.append(1), build(*options))[1])
    await running.reload()
    assert len(built) == 2
    await running.stop()


async def test_a_configuration_that_does_not_stop_changing_is_not_read(running: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    async def changes(_: ConfigWatcher) -> None:
        raise ConfigError([Problem("", "still changes")])

    monkeypatch.setattr(ConfigWatcher, "settle", changes)
    before = running.services
    await running.reload()
    assert running.services is before
    assert [problem.message for problem in running.status.problems] == ["still changes"]
    await running.stop()


class EnvoyOfATest:
    """Fake Envoy plane; `fails` is raised, `late` is returned."""

    def __init__(self, *, fails: Exception | None = None, late: str = ""):
        self.fails, self.late, self.restored, self.forgotten = fails, late, 0, 0

    async def prepare(self, options: Options) -> str:
        if self.fails is not None:
            raise self.fails
        return self.late

    def rollback(self) -> None:
        self.restored += 1

    def forget(self) -> None:
        self.forgotten += 1


def success() -> float | None:
    return metrics.registry.get_sample_value("gate_config_last_reload_success", {"service": "gate"})


REFUSED = ConfigError([Problem("data_plane", "envoy refuses")])
BEFORE = {
    "reading": (ConfigWatcher, "load", OSError("no descriptors")),
    "building": (runtime.ServiceBuilder, "build", REFUSED),
    "cookies": (runtime, "cookie_settings", ValueError("no key")),
    "the port": (MetricsListener, "rebind", REFUSED),
}
AFTER = {
    "metrics": (MetricsListener, "serve"),
    "tracing": (runtime.tracer, "set_tracer"),
    "data broker": (runtime.DataBrokerService, "reconfigure"),
    "upstreams": (runtime.SharedResources, "reconfigure"),
    "decision log": (Runtime, "_configure_decision_log"),
    "log": (runtime, "configure_logs"),
    "gRPC": (NoRpc, "reload"),
    "autocert": (runtime.Autocert, "reconfigure"),
    "sign-in": (AuthenticateService, "start"),
    "directory of before": (DirectoryService, "stop"),
    "directory": (DirectoryService, "start"),
}


@pytest.mark.parametrize("step", [*BEFORE, "envoy", "envoy, somehow"])
async def test_failure_before_swap_changes_nothing_and_is_reported(running: Runtime, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    running.envoy = envoy = EnvoyOfATest(fails={"envoy": REFUSED, "envoy, somehow": OSError("gone")}.get(step))  # type: ignore[assignment]
    if step in BEFORE:
        where, name, error = BEFORE[step]

        def fails(*_: object, **__: object) -> object:
            raise error

        monkeypatch.setattr(where, name, fails)
    world, options, changes = running.services, running.options, running._resources.streams.access_change_count
    with capture_logs() as logs:
        await running.reload()
    assert (running.services, running.options) == (world, options)
    assert running._resources.streams.access_change_count == changes
    assert "configuration rejected" in [line["event"] for line in logs]
    assert (success(), bool(running.status.problems)) == (0.0, True)
    assert envoy.restored == (1 if step == "the port" else 0)


@pytest.mark.parametrize("part", AFTER)
async def test_failure_after_swap_reverts_nothing_and_is_reported(running: Runtime, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    running.envoy = EnvoyOfATest()  # type: ignore[assignment]
    where, name = AFTER[part]

    def fails(*_: object, **__: object) -> object:
        raise OSError("it fails")

    monkeypatch.setattr(where, name, fails)
    world, changes = running.services, running._resources.streams.access_change_count
    with capture_logs() as logs:
        await running.reload()
    assert running.services is not world
    assert running._resources.streams.access_change_count == changes + 1, "users denied by the policy are out"
    events = [line["event"] for line in logs]
    assert "configuration rejected" not in events
    assert "configuration reload incomplete" in events
    assert "configuration reloaded" in events
    assert (success(), [problem.key for problem in running.status.problems]) == (0.0, [part])


async def test_applies_every_part_and_access_first(running: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    applied: list[str] = []

    async def apply(self: Reload, part: str, step: object) -> None:
        applied.append(part)

    monkeypatch.setattr(Reload, "apply", apply)
    await running.reload()
    assert applied == ["open streams", *AFTER]


async def test_an_envoy_that_is_silent_holds_up_no_policy(running: Runtime) -> None:
    running.envoy = EnvoyOfATest(late="not in time")  # type: ignore[assignment]
    world = running.services
    await running.reload()
    assert running.services is not world
    assert (success(), [problem.key for problem in running.status.problems]) == (0.0, ["envoy"])
    running.envoy = EnvoyOfATest()  # type: ignore[assignment]
    await running.reload()
    assert (success(), running.status.problems) == (1.0, ())
