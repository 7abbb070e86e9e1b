"""Storage in `autocert_dir`, of one authority, shared by every process that uses it; each file is replaced whole or not at all.

certificates/HOST.pem  the key and the chain together, so that no reader finds two that don't belong together
challenges/HOST.json   what the authority asks at the moment: whichever process it reaches can answer
staples/SHA256.der     OCSP responses
account.json           our key at the authority, and the URL of our account
attempts.json          what failed, and when it may be tried again
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
MOST_BYTES = 1024 * 1024


# enforcement-point: Services and certificates: ACME challenge responses
class CertificateStorage:
    """Certificate storage; OSError where the directory can't be used.  A broken file is like one that isn't there, and is replaced."""

    def __init__(self, directory: Path, authority: str):
        """`authority` is the URL of its ACME directory: what one vouches for is never taken for another's."""
        self.directory = directory / "autocert" / re.sub(r"[^a-z0-9.-]+", "_", authority.partition("://")[2].lower())[:200]

    def open(self) -> None:
        """Make the directories, for our eyes only."""
        self.directory.parents[1].mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in (self.directory.parent, self.directory, *(self.directory / name for name in _FOLDERS)):
            path.mkdir(exist_ok=True, mode=0o700)
            if path.stat().st_mode & 0o077:
                path.chmod(0o700)

    @contextmanager
    def elected(self) -> Iterator[bool]:
        """Leader election: whether this process asks the authority; the kernel frees the lock of one that dies."""
        descriptor = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            os.close(descriptor)

    def stamp(self) -> tuple[int, ...]:
        """Stamp of the files: another one after any certificate or staple was replaced, which renames a file in its folder."""
        return tuple((self.directory / name).stat().st_mtime_ns for name in ("certificates", "staples"))

    def certificate(self, host: str) -> bytes | None:
        return self._read(self._certificate(host))

    def keep_certificate(self, host: str, pem: bytes) -> None:
        self._write(self._certificate(host), pem)

    def staple(self, fingerprint: bytes) -> bytes | None:
        return self._read(self.directory / "staples" / f"{fingerprint.hex()}.der")

    def keep_staple(self, fingerprint: bytes, response: bytes) -> None:
        self._write(self.directory / "staples" / f"{fingerprint.hex()}.der", response)

    def challenge(self, host: str) -> AcmeChallenge | None:
        if _HOST.fullmatch(host) is None:  # anybody may ask, for anything
            return None
        found = self._json(self.directory / "challenges" / f"{host}.json")
        try:
            return AcmeChallenge(**found) if found and found["host"] == host else None
        except TypeError:
            return None

    def keep_challenge(self, challenge: AcmeChallenge) -> None:
        self._write(self.directory / "challenges" / f"{self._named(challenge.host)}.json", json.dumps(asdict(challenge)).encode())

    def forget_challenge(self, host: str) -> None:
        (self.directory / "challenges" / f"{self._named(host)}.json").unlink(missing_ok=True)

    def forget_challenges(self) -> None:
        """Delete challenges that a process left behind which ended within an order."""
        for path in (self.directory / "challenges").iterdir():
            path.unlink(missing_ok=True)

    def account(self) -> dict[str, Any]:
        return self._json(self.directory / "account.json")

    def keep_account(self, account: dict[str, Any]) -> None:
        self._write(self.directory / "account.json", json.dumps(account).encode())

    def keep_trusted_ca(self, pem: bytes) -> Path:
        path = self.directory / "trusted-ca.pem"
        self._write(path, pem)
        return path

    def attempts(self) -> dict[str, Any]:
        return self._json(self.directory / "attempts.json")

    def keep_attempts(self, attempts: dict[str, Any]) -> None:
        self._write(self.directory / "attempts.json", json.dumps(attempts, indent=1).encode())

    def _certificate(self, host: str) -> Path:
        return self.directory / "certificates" / f"{self._named(host)}.pem"

    @staticmethod
    def _named(host: str) -> str:
        if _HOST.fullmatch(host) is None:
            raise ValueError(f"{host!r} is not a host name")
        return host

    @staticmethod
    def _read(path: Path) -> bytes | None:
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    path.chmod(0o600)
                return file.read(MOST_BYTES)
        except FileNotFoundError:
            return None

    def _json(self, path: Path) -> dict[str, Any]:
        with suppress(ValueError, RecursionError):
            found = json.loads(self._read(path) or b"{}")
            if isinstance(found, dict):
                return found
        return {}

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        unfinished.unlink(missing_ok=True)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # else a crash may leave the name with nothing behind it
        unfinished.replace(path)
