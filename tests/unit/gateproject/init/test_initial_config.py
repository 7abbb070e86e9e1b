"""An initial configuration is valid, has new secrets and comments, and its file is private."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.loader import check_content
from gateproject.init.initial_config import configuration, generate_secrets, write_new
from gateproject.management.commands.checkconfig import ALL_CONFIG_CHECKS

from .test_questions import ANSWERS


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"certificates": "balancer", "address": ":8000", "trusted_proxies": "10.0.0.1"},
        {"provider": "google", "who": "everyone", "admin": "alice@example.com"},
        {"client_secret": "#: 'x\" - é", "upstream": "https://10.0.0.5"},
    ],
)
def test_file_has_no_problems_and_contains_the_answers(tmp_path: Path, changed: dict[str, str]) -> None:
    answers = ANSWERS | changed
    text = configuration(answers, generate_secrets())
    checked = check_content(text.encode(), ".yaml", {}, tmp_path, ALL_CONFIG_CHECKS)
    assert (checked.errors, checked.warnings) == ((), ())
    assert checked.options is not None
    assert checked.options.idp_client_secret.reveal() == answers["client_secret"]
    assert str(checked.options.signout_redirect_url) == "https://authenticate.example.com/.gate/signed_out"
    assert checked.options.data_dir == tmp_path / "data"
    assert ": https://authenticate.example.com/oauth2/callback" in text


def test_where_the_environment_names_the_data_directory_the_file_does_not(tmp_path: Path) -> None:
    text = configuration(ANSWERS, generate_secrets(), data_dir=None)
    options = check_content(text.encode(), ".yaml", {"XDG_DATA_HOME": "/data"}, tmp_path).options
    assert options is not None
    assert options.data_dir == Path("/data/gate")


def test_each_installation_has_secrets_of_its_own() -> None:
    one, other = generate_secrets(), generate_secrets()
    assert len({*one.values(), *other.values()}) == 2 * len(one) == 6


def test_a_part_of_the_answers_gives_a_part_of_the_configuration() -> None:
    assert "policy" not in yaml.safe_load(configuration({"domain": "example.com"}, generate_secrets()))


def test_file_is_private_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    write_new(path, "first")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write_new(path, "second")
    assert path.read_text() == "first"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="exists"):
        write_new(tmp_path / "config.yaml", "text")
    assert not (tmp_path / "elsewhere").exists()


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_new(tmp_path / "config.yaml", "text")
    assert list(tmp_path.iterdir()) == []
