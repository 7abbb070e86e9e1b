"""Rules of every test: only the loopback network, one set-up of Django, and a restored environment."""

import atexit
import gc
import os
import shutil
import socket
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

# Settings never raise. Without a configuration, they select an in-memory database, which unit tests need.
os.environ["DJANGO_SETTINGS_MODULE"] = "gateproject.settings"
os.environ["GATE_CONFIG"] = os.devnull + "/absent.yaml"

import certifi
import django
from hypothesis import settings

# No object created before the end of the collection of tests is garbage, and each run of the garbage collector would scan all of them.
gc.disable()
django.setup()
# No deadline, because other processes slow examples down.
settings.register_profile("gate", deadline=None)
settings.load_profile("gate")

from tests.support.clock import clock  # noqa: E402, F401 - a fixture
from tests.support.database import database, database_once  # noqa: E402, F401 - fixtures, which need Django

# The default certificate authorities: httpx loads this file for each client without TLS settings, and OpenSSL in this and child processes.
# No server on loopback has a certificate of a public authority, and loading all of them takes a hundred times as long as loading one.
_one_authority = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----")
_authorities = Path(tempfile.mkdtemp(prefix="gate-tests-")) / "authorities.pem"
_authorities.write_text("".join(_one_authority[:2]) + "\n")
certifi.where = lambda: str(_authorities)
os.environ["SSL_CERT_FILE"] = str(_authorities)
_maker = os.getpid()
atexit.register(lambda: _maker == os.getpid() and shutil.rmtree(_authorities.parent))

_connect = socket.socket.connect

# The slowest files start first and the many short files last, so that no worker ends alone with a slow file.
SLOWEST_FIRST = [
    "attack/test_http_samples.py",
    "integration/test_silent_line.py",
    "integration/test_silent_readers.py",
    "contract/test_asgi_servers.py",
    "integration/test_demo_in_browser.py",
    "integration/test_accessibility_in_browser.py",
    "contract/test_readiness.py",
    "attack/test_identity_attacks.py",
    "integration/test_daphne_command.py",
    "contract/test_refusals_alike.py",
    "integration/test_websockets.py",
    "integration/test_store_trouble.py",
    "integration/test_log_reader.py",
    "contract/test_stores.py",
    "integration/test_real_readers.py",
    "integration/test_clock_skew.py",
    "contract/test_verdict_matrix.py",
    *("attack/", "integration/", "contract/", "repo/", "mutants/"),
    *("unit/config/reference/test_schema.py", "unit/proxy/listener/http1/test_channel.py", "unit/"),
]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put SLOWEST_FIRST first. Within each of its entries, the order of the seed stays."""
    starts = [f"tests/{name}" for name in SLOWEST_FIRST]
    items.sort(key=lambda item: next((place for place, start in enumerate(starts) if item.nodeid.startswith(start)), len(starts)))


@pytest.fixture(autouse=True, scope="session")
def _loopback_only() -> Iterator[None]:
    def connect(self: socket.socket, address: object) -> None:
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"tests talk to loopback only, not to {address!r}")
        return _connect(self, address)  # type: ignore[arg-type]

    socket.socket.connect = connect  # type: ignore[method-assign,assignment]
    yield
    socket.socket.connect = _connect  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def _environment_restored() -> Iterator[None]:
    before = _environment()
    yield
    if (after := _environment()) != before:
        for name in after.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _environment() -> dict[str, str]:
    """Return the environment without the variable that pytest changes during a test."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def pytest_collection_finish() -> None:
    """Exempt the collected tests and their modules from garbage collection, because they live until the end."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Disable garbage collection while pytest parses the source of a failed test (tests/support/source_trees.py)."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if was_enabled:
            gc.enable()
