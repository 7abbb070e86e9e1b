"""Files that settings name: their paths and contents."""

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
    """Files of one configuration. Relative paths start at its directory. Errors are ValueErrors."""

    def __init__(self, directory: Path):
        self._directory = directory
        self.read_ones: set[Path] = set()  # includes files that could not be read

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
    """Open a regular file.

    The checks use the open descriptor, so that the file cannot be swapped between check and use. The open does not block on a pipe or a
    device.
    """
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


# Almost all values of a large configuration have one of these types.
_NO_FILES = frozenset({str, int, bool, float, bytes, timedelta, type(None)})


def watched_files(value: Any) -> Iterator[WatchedFile]:
    """Yield the watched files in a value, found by type at any depth."""
    if isinstance(value, WatchedFile):
        yield value
        return
    values = vars(value).values() if isinstance(value, Settings) else ()
    for each in value if isinstance(value, tuple | list) else values:
        if type(each) not in _NO_FILES:
            yield from watched_files(each)


def file_stamp(path: Path) -> object:
    """Return a stamp that differs after each change of the file.

    `stat` follows symbolic links, so a swapped link counts. The inode detects a file that was replaced within the clock's resolution.
    """
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return status.st_mtime_ns, status.st_ino, status.st_size


def seconds_since_change(path: Path) -> float:
    """Return the age of a file's content by this machine's clock.

    It is 0 if the file system's clock is ahead, and infinite if the file does not exist.
    """
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return math.inf
