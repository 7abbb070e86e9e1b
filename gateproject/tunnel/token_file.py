"""Token file: stores the token of a sign-in for later tunnels, readable by its owner only."""

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

_MAX_BYTES = 8192


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Return the user's cache directory (XDG Base Directory Specification)."""
    if shared := environ.get("XDG_CACHE_HOME"):
        return Path(shared).absolute() / "gate"
    return Path(environ.get("HOME") or "/").absolute() / ".cache" / "gate"


class TokenFile:
    """File of a token, one per host and connection. A file that others can read or own is ignored."""

    def __init__(self, directory: Path, host: str, url: str):
        self.path = directory / f"{hashlib.sha256(f'{host} {url}'.encode()).hexdigest()[:32]}.token"

    def read(self) -> str:
        """Return the token, empty if there is no usable one."""
        try:
            with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as file:
                found = os.fstat(file.fileno())
                if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077 or found.st_size > _MAX_BYTES:
                    return ""
                token = file.read().strip()
        except (OSError, UnicodeDecodeError):
            return ""
        return token if is_token(token) else ""

    def write(self, token: str) -> None:
        """Write atomically, because another tunnel may read the file at any time."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=self.path.parent)  # mode 0600
        with os.fdopen(handle, "w") as file:
            file.write(token)
        os.replace(name, self.path)

    def forget(self, token: str) -> None:
        """Delete the file if it still has this token, because another tunnel may have stored a new one."""
        if self.read() == token:
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()


def is_token(text: str) -> bool:
    """Return whether the text is a token that is valid in a header line."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
