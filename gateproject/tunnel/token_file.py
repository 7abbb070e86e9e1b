"""Token file: stores the tokens of a sign-in for later commands, readable by its owner only."""

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from foundation.values import Url
from gateproject.tunnel.tls_connection import TunnelError

_MAX_BYTES = 16 * 1024
_LOCK_INTERVAL = 0.1  # seconds
_NOTICE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class StoredToken:
    """Tokens of one sign-in. `expires_at` is that of the access token; the refresh token may only be sent to `issuer`."""

    issuer: str
    access_token: str = field(repr=False)
    expires_at: float
    refresh_token: str = field(repr=False, default="")


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Return the user's cache directory (XDG Base Directory Specification)."""
    if shared := environ.get("XDG_CACHE_HOME"):
        return Path(shared).absolute() / "gate"
    return Path(environ.get("HOME") or "/").absolute() / ".cache" / "gate"


class TokenFile:
    """File of a resource's tokens, one per resource and address of gate. A file that others can read or own is ignored."""

    def __init__(self, directory: Path, resource: Url, gate: Url):
        self.path = directory / f"{hashlib.sha256(f'{resource} {gate}'.encode()).hexdigest()[:32]}.json"

    def read(self) -> StoredToken | None:
        """Return the tokens, None if there are no usable ones."""
        try:
            with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as file:
                found = os.fstat(file.fileno())
                if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077 or found.st_size > _MAX_BYTES:
                    return None
                return _parse(json.load(file))
        except (OSError, ValueError, RecursionError):
            return None

    def write(self, token: StoredToken) -> None:
        """Write atomically, because another command may read the file at any time. Raise TunnelError."""
        with self._reporting():
            handle, name = tempfile.mkstemp(dir=self.path.parent)  # mode 0600
            try:
                with os.fdopen(handle, "w") as file:
                    json.dump(asdict(token), file)
                os.replace(name, self.path)
            except BaseException:
                os.unlink(name)
                raise

    def forget(self) -> None:
        """Delete the tokens. Raise TunnelError."""
        with self._reporting():
            self.path.unlink(missing_ok=True)

    @contextlib.asynccontextmanager
    async def locked(self, report: Callable[[str], None]) -> AsyncIterator[None]:
        """Lock the tokens against other commands and connections, because a refresh token works once. Raise TunnelError.

        The lock is another file, because `write` replaces the tokens' file. It ends with the process.
        """
        with self._reporting():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            await self._acquire(lock, report)
            yield
        finally:
            os.close(lock)

    async def _acquire(self, lock: int, report: Callable[[str], None]) -> None:
        """Poll, because a blocked thread could not be interrupted with Ctrl-C."""
        notice_at = asyncio.get_running_loop().time() + _NOTICE_SECONDS
        while True:
            with self._reporting(), contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            if asyncio.get_running_loop().time() > notice_at:
                notice_at = float("inf")
                report("waiting for another connection or command that signs in")
            await asyncio.sleep(_LOCK_INTERVAL)

    @contextlib.contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or error
            raise TunnelError(
                f"tokens can't be stored in {self.path.parent}: {reason}. Set XDG_CACHE_HOME to a writable directory"
            ) from None


def _parse(document: Any) -> StoredToken | None:
    if not isinstance(document, dict) or set(document) != {each.name for each in fields(StoredToken)}:
        return None
    texts = (document["issuer"], document["access_token"], document["refresh_token"])
    if not all(isinstance(text, str) for text in texts) or not is_token(document["access_token"]):
        return None
    return StoredToken(**document) if isinstance(document["expires_at"], int | float) else None


def is_token(value: Any) -> bool:
    """Return whether the value is text that is valid in a header line."""
    return isinstance(value, str) and bool(value) and value.isascii() and value.isprintable() and " " not in value
