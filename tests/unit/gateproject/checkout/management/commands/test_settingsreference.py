"""The command writes the reference pages, and reports outdated ones."""

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from gateproject.checkout.management.commands.settingsreference import files


def test_all_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("settingsreference", directory=tmp_path)
    assert (tmp_path / "settings.md").read_text().startswith("# Settings\n")
    assert json.loads((tmp_path / "config.schema.json").read_text())["properties"]["cookie_expire"]["default"] == "14h"
    assert capsys.readouterr().out.count(" written") == len(files())
    call_command("settingsreference", directory=tmp_path, check=True)


def test_outdated_file_is_reported_and_left_unchanged(tmp_path: Path) -> None:
    (tmp_path / "settings.md").write_text("old")
    with pytest.raises(CommandError, match=r"settings.md is out of date"):
        call_command("settingsreference", directory=tmp_path, check=True)
    assert (tmp_path / "settings.md").read_text() == "old"
