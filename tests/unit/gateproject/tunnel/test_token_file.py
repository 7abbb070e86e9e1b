"""A token file is private, and a file that others could read or write is ignored."""

import asyncio
import stat
from dataclasses import asdict
from pathlib import Path

import pytest

from foundation.values import parse_url
from gateproject.tunnel import token_file
from gateproject.tunnel.tls_connection import TunnelError
from gateproject.tunnel.token_file import StoredToken, TokenFile, cache_directory, is_token

RESOURCE, GATE = parse_url("https://db.example.com"), parse_url("https://gate.example.com")
TOKEN = StoredToken("https://auth.example.com", "abc.def-g", 1800000000.5, "refresh")


def open_file(directory: Path) -> TokenFile:
    return TokenFile(directory, RESOURCE, GATE)


async def test_token_is_stored_privately_and_removed(tmp_path: Path) -> None:
    file = open_file(tmp_path / "gate")
    assert file.read() is None
    async with file.locked(lambda message: None):
        file.write(TOKEN)
    assert file.read() == TOKEN
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file.path, file.path.with_suffix(".lock"))] == [0o600] * 2
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert set(file.path.parent.iterdir()) == {file.path, file.path.with_suffix(".lock")}
    file.forget()
    assert file.read() is None
    file.forget()


def test_each_resource_and_way_to_it_has_its_own(tmp_path: Path) -> None:
    urls = [parse_url(url) for url in ("https://a", "https://b", "tcp+https://a:22", "tcp+https://a:23")]
    assert len({TokenFile(tmp_path, resource, gate).path for resource in urls for gate in urls[:2]}) == 8


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_file_of_others_counts_as_none(tmp_path: Path, mode: int) -> None:
    file = open_file(tmp_path)
    file.write(TOKEN)
    file.path.chmod(mode)
    assert file.read() is None
    file.write(TOKEN)
    assert file.read() == TOKEN


def test_file_of_another_owner_counts_as_none(tmp_path: Path, monkeypatch) -> None:
    file = open_file(tmp_path)
    file.write(TOKEN)
    owner = file.path.stat().st_uid
    monkeypatch.setattr(token_file.os, "getuid", lambda: owner + 1)
    assert file.read() is None


def test_link_and_malformed_content_count_as_none(tmp_path: Path) -> None:
    file = open_file(tmp_path)
    file.path.touch(mode=0o600)
    valid = asdict(TOKEN)
    for content in (
        *("", "[]", "abc", "{}", "[" * 9000, "\x00"),
        *(
            {**valid, **changed}
            for changed in ({"access_token": "a\nHost: evil"}, {"access_token": 1}, {"issuer": None}, {"expires_at": "1"})
        ),
        {**valid, "refresh_token": "x" * 20_000},
        {**valid, "more": 1},
    ):
        file.path.write_text(content if isinstance(content, str) else token_file.json.dumps(content))
        assert file.read() is None, content
    file.path.write_bytes(b"\xff")
    assert file.read() is None
    file.write(TOKEN)
    file.path.rename(tmp_path / "elsewhere")
    file.path.symlink_to(tmp_path / "elsewhere")
    assert file.read() is None


async def test_lock_admits_one_at_a_time_and_reports_waiting(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(token_file, "_NOTICE_SECONDS", 0.0)
    first, second, messages = open_file(tmp_path), open_file(tmp_path), []
    async with first.locked(messages.append):
        waiting = asyncio.ensure_future(second.locked(messages.append).__aenter__())
        while not messages:
            await asyncio.sleep(0.01)
        assert not waiting.done()
    await waiting
    assert len(messages) == 1


async def test_directory_without_space_or_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    file = open_file(tmp_path / "file")
    message = f"can't be stored in {tmp_path}/file: .*Set XDG_CACHE_HOME"
    with pytest.raises(TunnelError, match=message):
        async with file.locked(lambda message: None):
            raise AssertionError
    with pytest.raises(TunnelError, match=message):
        file.write(TOKEN)
    file.path = tmp_path / "folder"
    (file.path / "a").mkdir(parents=True)
    with pytest.raises(TunnelError, match="can't be stored"):
        file.write(TOKEN)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_cache_belongs_to_the_user() -> None:
    assert cache_directory({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/gate")
    assert cache_directory({"HOME": "/h"}) == Path("/h/.cache/gate")


@pytest.mark.parametrize("value", ["a\r\nb", "", "a b", "ä", None, 1])
def test_values_that_no_header_can_have_are_no_tokens(value: object) -> None:
    assert not is_token(value)
    assert is_token("abc.def-g")
