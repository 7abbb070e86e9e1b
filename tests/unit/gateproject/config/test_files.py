"""Files are found beside the configuration, and none of them can hang or fill the process."""

import os
from pathlib import Path

import pytest

from gateproject.config.files import Files, read_capped


def test_relative_paths_start_at_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"pem")
    files = Files(tmp_path)
    assert files.read("ca.pem").content == b"pem"
    assert files.read("ca.pem").path == tmp_path / "ca.pem"
    assert files.existing("ca.pem") == tmp_path / "ca.pem"
    assert files.path("/etc/x") == Path("/etc/x")


def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * (1024 * 1024 + 1))
    files = Files(tmp_path)
    for written in ("pipe", "missing", ".", "large", "x" * 5000, "~nobody-of-that-name/x"):
        with pytest.raises(ValueError, match=r"can't be read|is not a file|is larger|home directory"):
            files.read(written)
    for written in ("pipe", "missing", "."):
        with pytest.raises(ValueError, match=r"can't be read|is not a file"):
            files.existing(written)


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_capped(tmp_path / "file", 5) == b"12345"
    with pytest.raises(ValueError, match="larger"):
        read_capped(tmp_path / "file", 4)


def test_a_files_content_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(b"hunter2")
    assert "hunter2" not in repr(Files(tmp_path).read("key.pem"))
