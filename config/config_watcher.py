"""Configuration source: notices when the files of the running configuration change, and loads them anew."""

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

SETTLED_SECONDS = 1.0  # a file without a change in this time is complete
MAX_SETTLING_SECONDS = 10.0


class ConfigWatcher:
    """Configuration file (or none) and the environment as it was at the start."""

    def __init__(self, path: Path | None, environ: Mapping[str, str], checks: Sequence[ConfigCheck] = ()):
        self.path = path
        self._checks = [check for check in checks if not check.warns]
        self._environ = dict(environ)
        self._known = RouteCache()
        self._named: tuple[Path, ...] = ()
        self._seen: object = None
        self._unchanged_since: dict[Path, tuple[object, float]] = {}  # file -> its stamp, and since when it has had that
        self.source_map = SourceMap()  # of the values of the configuration that was loaded last
        self.checksum = ""  # 16 hex digits over the bytes of every file of the configuration that was loaded last

    def load(self) -> Options:
        """Options; ConfigError.  What was seen is remembered either way: a broken file is reported once, not each second."""
        files, before = tuple(self._files()), self._stamps()
        self._seen = before
        checked = check_configuration(self.path, self._environ, self._checks, self._known)
        # A file that a refused configuration names may be what will mend it; one that can't even be read names none.
        self._named = tuple(sorted(checked.files)) if checked.options is not None else tuple(sorted({*self._named, *checked.files}))
        # What is written while it is being read, by an editor in two steps say, is a change still to come.
        known = dict(zip(files, before, strict=True))
        self._seen = tuple(known.get(path, stamp) for path, stamp in zip(self._files(), self._stamps(), strict=True))
        options = require_options(checked)
        self.checksum, self.source_map = self._checksum(), checked.source_map
        return options

    def has_changed(self) -> bool:
        return self._stamps() != self._seen

    async def settle(self) -> None:
        """Wait until no file of the configuration has changed for a second; ConfigError where one goes on changing.

        Files are also written in place, and the first lines of a list of rules are a list of rules, too, without the denies that follow.
        """
        deadline = time.monotonic() + MAX_SETTLING_SECONDS
        while (unsettled := await asyncio.to_thread(self.unsettled)) is not None:
            path, seconds = unsettled
            if time.monotonic() > deadline:
                message = f"is not read while it changes. Write {path.name} under another name in the same directory, then rename it"
                raise ConfigError([Problem("", message, file=printable_path(path))])
            await asyncio.sleep(seconds)

    def unsettled(self) -> tuple[Path, float] | None:
        """Return the file that has to stay unchanged for longest, and for how many seconds; None where all are settled."""
        now = time.monotonic()
        self._unchanged_since = {path: self._last_change(path, now) for path in self._files()}
        path, (_, since) = max(self._unchanged_since.items(), key=lambda item: item[1][1], default=(Path(), (None, -math.inf)))
        seconds = since + SETTLED_SECONDS - now
        return (path, seconds) if seconds > 0 else None

    def _last_change(self, path: Path, now: float) -> tuple[object, float]:
        """Stamp of a file, and since when it has had that: only of a file seen for the first time the file system is asked."""
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
        yield from self._named

    def _stamps(self) -> tuple[object, ...]:
        return tuple(map(file_stamp, self._files()))
