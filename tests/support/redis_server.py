"""A real Redis for tests: a child process, with or without TLS, that can be killed, stopped and started again."""

import shutil
import signal
import subprocess
from pathlib import Path
from typing import Self

from tests.support.certs import CertificateFiles, self_signed_client
from tests.support.children import Child, clean_environment, free_port

PROGRAM = shutil.which("redis-server") or "redis-server"


class RedisServer:
    """The server. Its append-only file is in `directory`; `arguments` are those of redis-server. Loading may take `patience` seconds."""

    def __init__(
        self, directory: Path, *arguments: str, tls: CertificateFiles | None = None, port: int | None = None, patience: float = 20.0
    ):
        self.directory = directory
        self.patience = patience
        self.port = port or free_port()
        self.tls = tls
        directory.mkdir(parents=True, exist_ok=True)
        self.client_pair = self_signed_client(directory, "redis-client")  # with TLS, the accepted client certificate
        # Port of the cluster bus. The default is the port plus 10,000, which may be in use.
        self._cluster_port = str(free_port())
        if "--cluster-enabled" in arguments:
            arguments = (*arguments, "--cluster-port", self._cluster_port)
        self._arguments = ["--bind", "127.0.0.1", "--save", "", "--dir", str(directory), *self._listen(), *arguments]
        self.child = self._start()

    def _listen(self) -> list[str]:
        if self.tls is None:
            return ["--port", str(self.port)]
        files = ["--tls-cert-file", self.tls.certificate, "--tls-key-file", self.tls.key, "--tls-ca-cert-file", self.client_pair[0]]
        return ["--port", "0", "--tls-port", str(self.port), *map(str, files), "--tls-auth-clients", "yes"]

    def _start(self) -> Child:
        child = Child(PROGRAM, *self._arguments)
        child.wait_for_line("Ready to accept connections", self.patience)
        return child

    @property
    def url(self) -> str:
        return f"{'kvstores' if self.tls else 'kvstore'}://localhost:{self.port}/0"

    def meet(self, other: "RedisServer") -> None:
        """Make both nodes of one cluster."""
        self.command("CLUSTER", "MEET", "127.0.0.1", str(other.port), other._cluster_port)

    def kill(self) -> None:
        self.child.process.kill()
        self.child.process.wait()

    def restart(self) -> None:
        self.child.__exit__()
        self.child = self._start()

    def hang(self) -> None:
        self.child.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.child.process.send_signal(signal.SIGCONT)

    def command(self, *arguments: str) -> str:
        """Return the output of redis-cli."""
        command = ["redis-cli", "-h", "localhost", "-p", str(self.port), *self._tls_of_cli(), *arguments]
        done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=10)
        assert done.returncode == 0, f"redis-cli {arguments}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def _tls_of_cli(self) -> list[str]:
        if self.tls is None:
            return []
        return ["--tls", "--cacert", str(self.tls.authority), "--cert", str(self.client_pair[0]), "--key", str(self.client_pair[1])]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.process.poll() is None:
            self.go_on()
        self.child.__exit__()
