"""Configuration source: notices when the files of the running configuration change, and loads them anew."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from config.load import ConfigCheck, check_configuration, options_of
from config.options import Options
from config.routes.route_cache import RouteCache
from config.shown.places import Places
from config.types.files import stamp_of


class ConfigSource:
    """Configuration file (or none) and the environment as it was at the start."""

    def __init__(self, path: Path | None, environ: Mapping[str, str], checks: Sequence[ConfigCheck] = ()):
        self.path = path
        self._checks = [check for check in checks if not check.warns]
        self._environ = dict(environ)
        self._known = RouteCache()
        self._named: tuple[Path, ...] = ()
        self._seen: object = None
        self.places = Places()  # of the values of the configuration that was loaded last
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
        options = options_of(checked)
        self.checksum, self.places = self._checksum(), checked.places
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
        return tuple(map(stamp_of, self._files()))
