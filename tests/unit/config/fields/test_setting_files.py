"""Files are found beside the configuration, and none of them can hang or fill the process."""

import os
import socket
from pathlib import Path

import pytest

from config.fields.setting_files import SettingFiles, read_capped


def test_relative_paths_start_at_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"pem")
    files = SettingFiles(tmp_path)
    assert files.read("ca.pem").content == b"pem"
    assert files.read("ca.pem").path == tmp_path / "ca.pem"
    assert files.existing("ca.pem") == tmp_path / "ca.pem"
    assert files.path("/etc/x") == Path("/etc/x")


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop2")
    (tmp_path / "loop2").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "to a pipe").symlink_to("pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "socket"))
    listener.close()
    (tmp_path / "large").write_bytes(b"x" * (1024 * 1024 + 1))
    files = SettingFiles(tmp_path)
    kinds = ("pipe", "loop", "dangling", "to a pipe", "socket", "/dev/tty", "/dev/null", "file/below", "a\0b")
    for written in (*kinds, "missing", ".", "large", "x" * 5000, "~nobody-of-that-name/x"):
        with pytest.raises(ValueError, match=r"can't be read|is not a file|is larger|home directory") as caught:
            files.read(written)
        assert str(caught.value).isprintable()
    for written in ("pipe", "missing", "."):
        with pytest.raises(ValueError, match=r"can't be read|is not a file"):
            files.existing(written)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_capped(tmp_path / "file", 5) == b"12345"
    with pytest.raises(ValueError, match="larger"):
        read_capped(tmp_path / "file", 4)


def test_file_content_is_not_displayed(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(b"hunter2")
    assert "hunter2" not in repr(SettingFiles(tmp_path).read("key.pem"))


def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    """Run as another user: root ignores permissions."""
    tmp_path.chmod(0o755)
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "file").chmod(0)
    if os.geteuid() == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(ValueError, match="can't be read: Permission denied"):
            read_capped(tmp_path / "file", 5)
    finally:
        os.seteuid(os.getuid())
