"""Files that settings name: where they are, and what is in them."""

import math
import os
import stat
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

from config.parsing.document import printable_path
from config.validation import Settings
from foundation.values import WatchedFile

MAX_CONFIG_BYTES = 16 * 1024 * 1024
_MAX_REFERENCED_BYTES = 1024 * 1024


class SettingFiles:
    """Files of one configuration; relative paths begin at its directory.  Errors are ValueErrors."""

    def __init__(self, directory: Path):
        self._directory = directory
        self.read_ones: set[Path] = set()  # also those that could not be read

    def path(self, written: str) -> Path:
        try:
            return self._directory / Path(written).expanduser()
        except RuntimeError:
            raise ValueError(f"{written} refers to an unknown home directory") from None

    def existing(self, written: str) -> Path:
        path = self.path(written)
        open_file(path).close()
        return path

    def read(self, written: str) -> WatchedFile:
        path = self.path(written)
        self.read_ones.add(path)
        return WatchedFile(path, read_capped(path, _MAX_REFERENCED_BYTES))


def open_file(path: Path) -> BinaryIO:
    """File, judged after it is open, so that nothing can take its place between; opened so that a pipe or a device can't block."""
    name = printable_path(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError(f"{name} can't be read: {error.strerror}") from None
    except ValueError:
        raise ValueError(f"{name} can't be read: the name contains a NUL") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{name} is not a file")
    return os.fdopen(descriptor, "rb")


def read_capped(path: Path, limit: int) -> bytes:
    with open_file(path) as file:
        try:
            content = file.read(limit + 1)
        except OSError as error:
            raise ValueError(f"{printable_path(path)} can't be read: {error.strerror}") from None
    if len(content) > limit:
        raise ValueError(f"{printable_path(path)} is larger than {limit // 1024 // 1024} MiB")
    return content


# Of the hundreds of thousands of values in a large configuration nearly all are of these.
_NO_FILES = frozenset({str, int, bool, float, bytes, timedelta, type(None)})


def watched_files(value: Any) -> Iterator[WatchedFile]:
    """Watched files, found by type, wherever a setting or a route holds one."""
    if isinstance(value, WatchedFile):
        yield value
        return
    values = vars(value).values() if isinstance(value, Settings) else ()
    for each in value if isinstance(value, tuple | list) else values:
        if type(each) not in _NO_FILES:
            yield from watched_files(each)


def file_stamp(path: Path) -> object:
    """Stamp of a file, another one after each change.  `stat` follows symbolic links, so a swapped link counts; the inode tells a file that
    was replaced within the clock's resolution.
    """
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return status.st_mtime_ns, status.st_ino, status.st_size


def seconds_since_change(path: Path) -> float:
    """Age of a file's content, by this machine's clock; 0 where the file system's is ahead, without end where there is no such file."""
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return math.inf
