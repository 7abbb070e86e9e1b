"""The files that settings name: where they are, and what is in them."""

from pathlib import Path
from typing import BinaryIO

from gateproject.config.types import WatchedFile

LARGEST_CONFIGURATION = 64 * 1024 * 1024
_LARGEST_REFERENCED = 1024 * 1024


class Files:
    """Resolves relative paths against the directory of the configuration file.  Errors are ValueErrors."""

    def __init__(self, directory: Path):
        self._directory = directory

    def path(self, written: str) -> Path:
        try:
            return self._directory / Path(written).expanduser()
        except RuntimeError:
            raise ValueError(f"{written} names a home directory that is not known") from None

    def existing(self, written: str) -> Path:
        path = self.path(written)
        open_file(path).close()
        return path

    def read(self, written: str) -> WatchedFile:
        path = self.path(written)
        return WatchedFile(path, read_capped(path, _LARGEST_REFERENCED))


def open_file(path: Path) -> BinaryIO:
    try:
        if path.exists() and not path.is_file():  # a pipe would block for ever
            raise ValueError(f"{path} is not a file")
        return path.open("rb")
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from None


def read_capped(path: Path, limit: int) -> bytes:
    with open_file(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"{path} is larger than {limit // 1024 // 1024} MiB")
    return content
