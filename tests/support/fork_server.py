"""Fork server: starts a program of the tree by a fork of an interpreter with imported dependencies, at less than half the cost.

Preloaded are libraries (LIBRARIES), and modules of gate that only contain definitions (DEFINITIONS, and fork_server_pages.py): none of
gate's modules reads the environment at import, except for the settings. Everything else runs in the new process, from the first
line of the program on.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn

from foundation.version import version
from tests.support import fork_server_pages
from tests.support.children import ROOT, Child, clean_environment

# None of them starts a thread, leaves a descriptor open, or reads Django's settings.
LIBRARIES = """
    acme.client aiohttp anyio._backends._asyncio asgiref.sync autobahn.wamp.protocol autobahn.websocket.protocol channels.routing
    cryptography.x509 cryptography.x509.ocsp cryptography.hazmat.primitives.serialization.pkcs12
    django.core.handlers.asgi django.core.management django.core.management.commands.migrate django.core.validators
    django.db.backends.sqlite3.base django.db.migrations.executor django.db.models django.forms django.http django.template django.urls
    django.views.generic envoy.service.auth.v3.external_auth_pb2
    google.protobuf.json_format grpc.aio h11 httpcore httpx jinja2 josepy jwt oidc_provider_mock OpenSSL.SSL prometheus_client pydantic
    pydantic.json_schema pydantic.types re2 redis.asyncio.cluster redis.asyncio.sentinel requests service_identity sqlparse structlog
    tomllib twisted.internet.endpoints twisted.internet.ssl twisted.internet.tcp twisted.logger twisted.protocols.tls twisted.web.http
    uvicorn uvicorn.middleware.wsgi yaml
""".split()  # noqa: SIM905 - easier to read
# They need no Django settings, and import most of gate.
DEFINITIONS = """
    authenticate.bearer_token_verification authenticate.directory.provider_directory authenticate.scim.scim_directory
    authenticate.session.refresh_worker authorize.config_checks config.options config.inspect.config_diff proxy.autocert.certificate_renewal
    proxy.envoy.ext_authz_server proxy.service
""".split()  # noqa: SIM905 - easier to read
# Variables that the interpreter or the loader reads at its start, and a fork would ignore.
_READ_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC", "GLIBC", "PATH")


class ForkedProcess:
    """The part of subprocess.Popen that tests use. `status` delivers the process id, and at the end the exit status."""

    def __init__(self, status: int, stdout: IO[str] | None):
        self._status = os.fdopen(status)
        self.pid = int(self._status.readline())
        self.stdout = stdout
        self.returncode: int | None = None
        self._waiting = threading.Lock()

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        with self._waiting:
            if self.returncode is None:
                if not select.select([self._status], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired("a prepared process", timeout or 0)
                self.returncode = int(self._status.readline())
                self._status.close()
            return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _ForkServer:
    """The fork server, started for the first request, or before this process is forked, for all processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # Registered here so that it ends last, because it reports the exit of the others.
        atexit.register(self._end)

    def begin(self) -> None:
        with self._lock:
            if self._line is None:
                self._line = self._started()

    def start(self, arguments: list[str], environment: dict[str, str]) -> ForkedProcess:
        """Start a process; its standard output and error are one stream."""
        output, write_end = os.pipe()
        status = self._ordered(arguments, environment, write_end, write_end)
        os.close(write_end)
        return ForkedProcess(status, open(output, errors="replace"))

    def start_into(self, arguments: list[str], environment: dict[str, str], output: int, error: int) -> ForkedProcess:
        return ForkedProcess(self._ordered(arguments, environment, output, error), None)

    def _ordered(self, arguments: list[str], environment: dict[str, str], output: int, error: int) -> int:
        """Request a process, and return the descriptor that reports its state."""
        status, write_end = os.pipe()
        self.begin()
        assert self._line is not None
        with self._lock:
            socket.send_fds(self._line, [json.dumps([arguments, environment]).encode()], [write_end, output, error])
        os.close(write_end)
        return status

    def _started(self) -> socket.socket:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.support.fork_server", str(far.fileno())]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=clean_environment(), stdin=subprocess.DEVNULL, start_new_session=True, pass_fds=[far.fileno()]
        )
        far.close()
        return near

    def _end(self) -> None:
        if self._line is not None and self._process is not None:
            self._line.close()
            self._process.wait()


_preparer = _ForkServer()
begin = _preparer.begin


def python(*arguments: str | Path, environment: dict[str, str] | None = None) -> Child:
    """Start Python with these arguments: a file, or `-m` and a module, or `-c` and code.

    It is not forked if its environment configures the interpreter differently.
    """
    environment = environment or clean_environment()
    if not _is_prepared_for(environment):
        return Child.python(*arguments, environment=environment)
    return Child(*arguments, environment=environment, start=_preparer.start)


def run(*arguments: str | Path, environment: dict[str, str] | None = None, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
    """Run as `python` to the end, and return the status, standard output and standard error."""
    environment = environment or clean_environment()
    assert _is_prepared_for(environment), "it has to be started afresh"
    command = [str(each) for each in arguments]
    with tempfile.TemporaryFile("w+", errors="replace") as output, tempfile.TemporaryFile("w+", errors="replace") as error:
        process = _preparer.start_into(command, environment, output.fileno(), error.fileno())
        try:
            status = process.wait(timeout)
        finally:
            process.kill()
        output.seek(0)
        error.seek(0)
        return subprocess.CompletedProcess(command, status, output.read(), error.read())


def manage(*arguments: str | Path, environment: dict[str, str] | None = None) -> Child:
    """Start `manage.py` as `python` does, or with another interpreter if suites run over it."""
    if interpreter := os.environ.get("GATE_TESTED_PYTHON"):
        return Child(interpreter, "manage.py", *arguments, environment=environment)
    return python("manage.py", *arguments, environment=environment)


def _is_prepared_for(environment: dict[str, str]) -> bool:
    return _read_at_start(environment) == _read_at_start(clean_environment())


def _read_at_start(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _wait_for_orders(line: socket.socket) -> list[str]:
    """Return in each forked process, with its arguments. Exits when the last client is gone."""
    with warnings.catch_warnings(record=True):  # warnings of libraries about each other
        for name in (*LIBRARIES, *DEFINITIONS):
            importlib.import_module(name)
        fork_server_pages.define()
    version()  # runs git once
    assert len(os.listdir("/proc/self/task")) == 1, "a library has started a thread"
    assert "twisted.internet.reactor" not in sys.modules
    assert "gateproject.settings" not in sys.modules
    gc.freeze()
    running: dict[int, tuple[int, int]] = {}  # descriptor of a process -> its id, and the descriptor for its status
    while True:
        for ready in select.select([line, *running], [], [])[0]:
            if ready is not line:
                process, status = running.pop(ready)
                _report(status, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
                _close(ready, status)
                continue
            message, descriptors, _, _ = socket.recv_fds(line, 1 << 20, 3)
            if not message:
                for process, _ in running.values():  # a client that was killed has stopped none of them
                    with suppress(ProcessLookupError):
                        os.killpg(process, signal.SIGKILL)
                sys.exit()
            status, output, error = descriptors
            if (process := os.fork()) == 0:
                return _become(*json.loads(message), output, error)
            _report(status, process)
            _close(output, error)
            running[os.pidfd_open(process)] = process, status


def _report(status: int, number: int) -> None:
    with suppress(BrokenPipeError):  # the last client is gone
        os.write(status, f"{number}\n".encode())


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _become(arguments: list[str], environment: dict[str, str], output: int, error: int) -> list[str]:
    os.setsid()
    os.dup2(output, 1)
    os.dup2(error, 2)
    os.closerange(3, 4096)
    os.environ.clear()
    os.environ.update(environment)
    return arguments


def _do(program: str, *arguments: str) -> None:
    """Execute the program as `python` does."""
    if program == "-m":
        sys.argv = list(arguments)
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    elif program == "-c":
        text, *others = arguments
        sys.argv = ["-c", *others]
        exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")


def _end(status: int) -> NoReturn:
    """Exit like an interpreter, without freeing its objects, because that would copy most pages shared with the fork server."""
    threading._shutdown()  # waits for non-daemon threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader is gone, or it was closed
            stream.flush()
    os._exit(status)


def _status_of(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


def _run(arguments: list[str]) -> NoReturn:
    try:
        _do(*arguments)
    except SystemExit as error:
        _end(_status_of(error))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        _end(1)
    _end(0)


if __name__ == "__main__":
    _run(_wait_for_orders(socket.socket(fileno=int(sys.argv[1]))))
