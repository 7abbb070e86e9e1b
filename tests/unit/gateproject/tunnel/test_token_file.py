"""A token file is private, and a file that others could read or write is ignored."""

import stat
from pathlib import Path

import pytest

from gateproject.tunnel.token_file import TokenFile, cache_directory, is_token


def test_token_is_stored_privately_and_removed(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "gate", "db.example.com", "https://db.example.com")
    assert file.read() == ""
    file.write("abc.def-g")
    assert (file.read(), stat.S_IMODE(file.path.stat().st_mode), stat.S_IMODE(file.path.parent.stat().st_mode)) == (
        "abc.def-g",
        0o600,
        0o700,
    )
    assert list(file.path.parent.iterdir()) == [file.path]
    file.forget("another")
    assert file.read() == "abc.def-g"
    file.forget("abc.def-g")
    assert file.read() == ""


def test_each_host_and_way_to_it_has_its_own(tmp_path: Path) -> None:
    paths = {TokenFile(tmp_path, host, url).path for host in ("a", "b") for url in ("https://a", "https://b")}
    assert len(paths) == 4


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_value_with_another_interpretation_counts_as_none(tmp_path: Path, mode: int) -> None:
    file = TokenFile(tmp_path, "a", "https://a")
    file.write("abc")
    file.path.chmod(mode)
    assert file.read() == ""


def test_link_and_malformed_token_count_as_none(tmp_path: Path) -> None:
    file = TokenFile(tmp_path, "a", "https://a")
    for content in ("a b", "a\nHost: evil", "", "ä", "x" * 9000):
        file.write(content)
        assert file.read() == ""
    file.write("abc")
    file.path.rename(tmp_path / "elsewhere")
    file.path.symlink_to(tmp_path / "elsewhere")
    assert file.read() == ""


def test_cache_belongs_to_the_user() -> None:
    assert cache_directory({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/gate")
    assert cache_directory({"HOME": "/h"}) == Path("/h/.cache/gate")
    assert not is_token("a\r\nb")
