"""Where the running configuration comes from: notices when its files change, and loads them anew."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gateproject.config.load import Judge, load_options
from gateproject.config.options import Options
from gateproject.config.types import WatchedFile


class ConfigSource:
    """One configuration file (or none) and the environment as it was at the start."""

    def __init__(self, path: Path | None, environ: Mapping[str, str], judges: Sequence[Judge] = ()):
        self.path = path
        self._judges = judges
        self._environ = dict(environ)
        self._named: tuple[Path, ...] = ()
        self._seen: object = None
        self.checksum = ""  # 16 hex digits over the bytes of every file of the configuration that was loaded last

    def load(self) -> Options:
        """Raises ConfigError.  What was seen is remembered either way: a broken file is reported once, not each second."""
        files, before = tuple(self._files()), self._stamps()
        self._seen = before
        options = load_options(self.path, self._environ, self._judges)
        self._named = tuple(sorted({file.path for file in watched_files(options)}))
        # What is written while it is being read, by an editor in two steps say, is a change still to come.
        known = dict(zip(files, before, strict=True))
        self.checksum = self._checksum()
        self._seen = tuple(known.get(path, stamp) for path, stamp in zip(self._files(), self._stamps(), strict=True))
        return options

    def has_changed(self) -> bool:
        return self._stamps() != self._seen

    def _checksum(self) -> str:
        digest = hashlib.sha256()
        for path in self._files():
            try:
                digest.update(path.read_bytes())
            except OSError as error:
                digest.update(str(error.errno).encode())
        return digest.hexdigest()[:16]

    def _files(self) -> Iterator[Path]:
        if self.path is not None:
            yield self.path
        yield from self._named

    def _stamps(self) -> tuple[object, ...]:
        return tuple(map(_stamp, self._files()))


def _stamp(path: Path) -> object:
    """`stat` follows symbolic links, so a swapped link counts; the inode tells a file replaced within the clock's resolution."""
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return status.st_mtime_ns, status.st_ino, status.st_size


def watched_files(value: Any) -> Iterator[WatchedFile]:
    """Found by type, wherever a setting or a route holds one."""
    if isinstance(value, WatchedFile):
        yield value
    elif isinstance(value, BaseModel):
        for field in type(value).model_fields:
            yield from watched_files(getattr(value, field))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from watched_files(item)
