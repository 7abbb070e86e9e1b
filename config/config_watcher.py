"""Watcher that detects changes to the configuration's files and reloads them."""

import asyncio
import hashlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from config.fields.setting_files import file_stamp, seconds_since_change
from config.inspect.source_map import SourceMap
from config.loader import ConfigCheck, check_configuration, require_options
from config.options import Options
from config.parsing.document import printable_path
from config.routes.route_cache import RouteCache
from foundation.errors import ConfigError, Problem

SETTLED_SECONDS = 1.0  # a file unchanged for this long is complete
MAX_SETTLING_SECONDS = 10.0


class ConfigWatcher:
    """The configuration file (or none), and the environment as it was at startup."""

    def __init__(self, path: Path | None, environ: Mapping[str, str], checks: Sequence[ConfigCheck] = ()):
        self.path = path
        self._checks = [check for check in checks if not check.warns]
        self._environ = dict(environ)
        self._route_cache = RouteCache()
        self._referenced_files: tuple[Path, ...] = ()
        self._loaded_stamps: object = None
        self._unchanged_since: dict[Path, tuple[object, float]] = {}  # file -> (its stamp, when the stamp was first observed)
        self.source_map = SourceMap()  # locations of the values of the last loaded configuration
        self.checksum = ""  # 16 hex digits, over the bytes of every file of the last loaded configuration

    def load(self) -> Options:
        """Load the configuration and remember the stamps of its files.

        The stamps are remembered even if loading fails, so that an invalid file is reported once rather than every second.

        Raises ConfigError if the configuration is invalid.
        """
        files, before = tuple(self._files()), self._file_stamps()
        self._loaded_stamps = before
        checked = check_configuration(self.path, self._environ, self._checks, self._route_cache)
        # A change to a file that a rejected configuration names may fix it. An unreadable configuration names no files.
        self._referenced_files = (
            tuple(sorted(checked.files)) if checked.options is not None else tuple(sorted({*self._referenced_files, *checked.files}))
        )
        # A file written while it is being read, for example by an editor in two steps, counts as changed.
        known = dict(zip(files, before, strict=True))
        self._loaded_stamps = tuple(known.get(path, stamp) for path, stamp in zip(self._files(), self._file_stamps(), strict=True))
        options = require_options(checked)
        self.checksum, self.source_map = self._checksum(), checked.source_map
        return options

    def has_changed(self) -> bool:
        return self._file_stamps() != self._loaded_stamps

    async def settle(self) -> None:
        """Wait until no file of the configuration has changed for SETTLED_SECONDS.

        Files may be written in place. A truncated list of rules is still a valid list, but lacks the denies that follow.

        Raises ConfigError if a file is still changing after MAX_SETTLING_SECONDS.
        """
        deadline = time.monotonic() + MAX_SETTLING_SECONDS
        while (find_unsettled := await asyncio.to_thread(self.find_unsettled)) is not None:
            path, seconds = find_unsettled
            if time.monotonic() > deadline:
                message = f"is not read while it changes. Write {path.name} under another name in the same directory, then rename it"
                raise ConfigError([Problem("", message, file=printable_path(path))])
            await asyncio.sleep(seconds)

    def find_unsettled(self) -> tuple[Path, float] | None:
        """Return the file that needs the longest wait, with the seconds to wait; None if all files are settled."""
        now = time.monotonic()
        self._unchanged_since = {path: self._last_change(path, now) for path in self._files()}
        path, (_, since) = max(self._unchanged_since.items(), key=lambda item: item[1][1], default=(Path(), (None, -math.inf)))
        seconds = since + SETTLED_SECONDS - now
        return (path, seconds) if seconds > 0 else None

    def _last_change(self, path: Path, now: float) -> tuple[object, float]:
        """Return the stamp of a file and the time since which it has that stamp.

        The modification time is used only for a file that is observed for the first time.
        """
        stamp, before = file_stamp(path), self._unchanged_since.get(path)
        if before is None:
            return stamp, now - seconds_since_change(path)
        return before if before[0] == stamp else (stamp, now)

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
        yield from self._referenced_files

    def _file_stamps(self) -> tuple[object, ...]:
        return tuple(map(file_stamp, self._files()))
