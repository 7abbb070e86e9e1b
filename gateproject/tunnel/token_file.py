"""Token file: what a person's sign-in gave, kept for their next tunnels where nobody else can read it."""

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

_LONGEST = 8192


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Cache directory of the person who runs us (XDG Base Directory Specification)."""
    if shared := environ.get("XDG_CACHE_HOME"):
        return Path(shared).absolute() / "gate"
    return Path(environ.get("HOME") or "/").absolute() / ".cache" / "gate"


class TokenFile:
    """File of a token, one for each host and way to it.  One that others can read, or that is not ours, counts as none."""

    def __init__(self, directory: Path, host: str, url: str):
        self.path = directory / f"{hashlib.sha256(f'{host} {url}'.encode()).hexdigest()[:32]}.token"

    def read(self) -> str:
        """Token; empty where there is none that can be used."""
        try:
            with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as file:
                found = os.fstat(file.fileno())
                if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077 or found.st_size > _LONGEST:
                    return ""
                token = file.read().strip()
        except (OSError, UnicodeDecodeError):
            return ""
        return token if is_token(token) else ""

    def write(self, token: str) -> None:
        """Write as a whole, or not at all: another tunnel may read it at any time."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=self.path.parent)  # mode 0600
        with os.fdopen(handle, "w") as file:
            file.write(token)
        os.replace(name, self.path)

    def forget(self, token: str) -> None:
        """Forget this token, not the one that another tunnel has got meanwhile."""
        if self.read() == token:
            with contextlib.suppress(FileNotFoundError):
                self.path.unlink()


def is_token(text: str) -> bool:
    """Whether this is a token that may stand in a header line."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
