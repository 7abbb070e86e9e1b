"""Storage in `autocert_dir` for one CA, shared by all processes. Files are replaced atomically.

certificates/HOST.pem  key and chain in one file, so that they always match
challenges/HOST.json   pending challenge, so that any process can answer the CA
staples/SHA256.der     OCSP responses
account.json           account key and account URL
attempts.json          failures, and when each host may be tried again
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from proxy.listener.tls.acme_state import AcmeChallenge

_FOLDERS = ("certificates", "challenges", "staples")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
MAX_FILE_BYTES = 1024 * 1024


# enforcement-point: Services and certificates: ACME challenge responses
class CertificateStorage:
    """Certificate storage. Methods raise OSError if the directory cannot be used. A malformed file counts as missing."""

    def __init__(self, directory: Path, authority: str):
        """Take the ACME directory URL as `authority`; each CA has its own directory."""
        self.directory = directory / "autocert" / re.sub(r"[^a-z0-9.-]+", "_", authority.partition("://")[2].lower())[:200]

    def open(self) -> None:
        """Create the directories, accessible only to this user."""
        self.directory.parents[1].mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in (self.directory.parent, self.directory, *(self.directory / name for name in _FOLDERS)):
            path.mkdir(exist_ok=True, mode=0o700)
            if path.stat().st_mode & 0o077:
                path.chmod(0o700)

    @contextmanager
    def leader_lock(self) -> Iterator[bool]:
        """Try to become the process that requests certificates. Yield whether it has the lock, which the kernel frees if it dies."""
        descriptor = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            os.close(descriptor)

    def modification_times(self) -> tuple[int, ...]:
        """Return the folders' modification times, which change when a certificate or staple is replaced."""
        return tuple((self.directory / name).stat().st_mtime_ns for name in ("certificates", "staples"))

    def certificate(self, host: str) -> bytes | None:
        return self._read(self._certificate(host))

    def save_certificate(self, host: str, pem: bytes) -> None:
        self._write(self._certificate(host), pem)

    def staple(self, fingerprint: bytes) -> bytes | None:
        return self._read(self.directory / "staples" / f"{fingerprint.hex()}.der")

    def save_staple(self, fingerprint: bytes, response: bytes) -> None:
        self._write(self.directory / "staples" / f"{fingerprint.hex()}.der", response)

    def challenge(self, host: str) -> AcmeChallenge | None:
        if _HOST.fullmatch(host) is None:  # the name comes from an unauthenticated client
            return None
        data = self._json(self.directory / "challenges" / f"{host}.json")
        try:
            return AcmeChallenge(**data) if data and data["host"] == host else None
        except TypeError:
            return None

    def save_challenge(self, challenge: AcmeChallenge) -> None:
        self._write(self.directory / "challenges" / f"{self._validated_host(challenge.host)}.json", json.dumps(asdict(challenge)).encode())

    def delete_challenge(self, host: str) -> None:
        (self.directory / "challenges" / f"{self._validated_host(host)}.json").unlink(missing_ok=True)

    def delete_challenges(self) -> None:
        """Delete challenges of a process that died during an order."""
        for path in (self.directory / "challenges").iterdir():
            path.unlink(missing_ok=True)

    def account(self) -> dict[str, Any]:
        return self._json(self.directory / "account.json")

    def save_account(self, account: dict[str, Any]) -> None:
        self._write(self.directory / "account.json", json.dumps(account).encode())

    def save_trusted_ca(self, pem: bytes) -> Path:
        path = self.directory / "trusted-ca.pem"
        self._write(path, pem)
        return path

    def attempts(self) -> dict[str, Any]:
        return self._json(self.directory / "attempts.json")

    def save_attempts(self, attempts: dict[str, Any]) -> None:
        self._write(self.directory / "attempts.json", json.dumps(attempts, indent=1).encode())

    def _certificate(self, host: str) -> Path:
        return self.directory / "certificates" / f"{self._validated_host(host)}.pem"

    @staticmethod
    def _validated_host(host: str) -> str:
        if _HOST.fullmatch(host) is None:
            raise ValueError(f"{host!r} is not a host name")
        return host

    @staticmethod
    def _read(path: Path) -> bytes | None:
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    path.chmod(0o600)
                return file.read(MAX_FILE_BYTES)
        except FileNotFoundError:
            return None

    def _json(self, path: Path) -> dict[str, Any]:
        with suppress(ValueError, RecursionError):
            data = json.loads(self._read(path) or b"{}")
            if isinstance(data, dict):
                return data
        return {}

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        unfinished.unlink(missing_ok=True)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # otherwise a crash can leave an empty file
        unfinished.replace(path)
