"""A process prepares what its services need, and exits with a message if that fails."""

import gc
import stat
import subprocess
import sys
import weakref

import pytest
from django.test import override_settings

from config.config_watcher import ConfigWatcher
from config.options import Options
from foundation.errors import ConfigError
from gateproject.process import start
from gateproject.process.start import prepare, runtime_from_settings
from tests.support.children import ROOT, clean_environment
from tests.support.options import make_options

PROXY = {"services": "proxy", "databroker_service_url": "https://broker:5443", "authorize_service_url": "https://authorize:5443"}


pytestmark = pytest.mark.usefixtures("logging_restored")


@pytest.fixture
def proxy(tmp_path) -> Options:
    return make_options(tmp_path, log_level="error", **PROXY)


def test_a_proxy_has_a_directory_of_its_own_and_no_database(proxy):
    prepare(proxy)
    assert stat.S_IMODE(proxy.data_dir.stat().st_mode) == 0o700
    assert list(proxy.data_dir.iterdir()) == []


def test_a_directory_that_can_not_be_written_is_named_by_its_setting(proxy, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"data_dir: .*file/data: Not a directory"):
        prepare(proxy.model_copy(update={"data_dir": tmp_path / "file" / "data"}))


def test_a_configuration_that_was_still_being_written_starts_nothing(proxy, tmp_path, monkeypatch):
    path = tmp_path / "config.yaml"
    source = ConfigWatcher(path, {})
    source.load()

    async def change_concurrently(seconds):
        path.write_bytes(path.read_bytes() + b"# and a deny\n")

    monkeypatch.setattr(start.asyncio, "sleep", change_concurrently)
    with override_settings(GATE_SOURCE=source), pytest.raises(ConfigError, match="changed while gate was starting"):
        prepare(proxy)
    assert not proxy.data_dir.exists()


def test_without_a_configuration_nothing_is_started(capsys):
    with override_settings(GATE_CONFIG_PATH=None), pytest.raises(SystemExit) as end:
        runtime_from_settings()
    assert "startup failed" in str(end.value)
    assert "--config FILE" in str(end.value)


def test_starting_worker_sends_without_waiting_for_a_reader():
    script = "import sys\ntry:\n    import gateproject.asgi\nexcept SystemExit:\n    print(sys.stdout, sys.stderr)\n"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, env=clean_environment(), timeout=60, check=True
    )
    assert [part.partition(":")[0] for part in ended.stdout.split("> ")] == ["<NonBlockingOutput 1", "<NonBlockingOutput 2"]


def test_migration_only_modules_are_not_retained(tmp_path, monkeypatch):
    class ModelsOfOneMigration:
        def __init__(self) -> None:
            self.itself = self

    left = []
    monkeypatch.setattr(start, "migrate", lambda options: left.append(weakref.ref(ModelsOfOneMigration())))
    gc.disable()
    try:
        prepare(make_options(tmp_path, log_level="error"))
    finally:
        gc.enable()
    assert [each() for each in left] == [None]


def test_process_loads_no_libraries_of_other_services(tmp_path):
    make_options(tmp_path, log_level="error", grpc_address="")
    # A kvstore, PostgreSQL, gRPC; ACME, Envoy, a sign-in, and regular expressions.
    needless = {"redis", "psycopg", "grpc", "google", "envoy", "acme", "proxy.envoy", "mozilla_django_oidc", "requests", "re2"}
    script = f"import sys, gateproject.asgi\nprint(sorted({needless} & set(sys.modules)))\n"
    environment = {**clean_environment(), "GATE_CONFIG": str(tmp_path / "config.yaml")}
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60, check=True
    )
    assert ended.stdout.splitlines()[-1] == "[]"
