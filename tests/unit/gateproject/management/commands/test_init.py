"""`gate init` with a file of answers, valid and invalid; the dialog is in tests/integration/test_init.py."""

import io
import os
from pathlib import Path

import pytest
import yaml
from django.core.management.base import CommandError

from gateproject.management.commands.init import Command
from tests.unit.gateproject.init.test_questions import ANSWERS

NON_EMPTY = {key: value for key, value in ANSWERS.items() if value}


def run(directory: Path, text: str, name: str = "answers.yaml") -> str:
    file = directory / name
    file.write_text(text)
    command = Command(stdout=io.StringIO())
    command.handle(directory=directory / "gate", answers=file, offline=True, systemd=None)
    return command.stdout.getvalue()


def test_answers_from_file_are_written_with_next_steps(tmp_path: Path) -> None:
    output = run(tmp_path, yaml.safe_dump({**NON_EMPTY, "who": ["@example.com", "group:ops"]}))
    assert f"{tmp_path}/gate/config.yaml, readable by you only" in output
    assert "rungate --config" in output
    (route,) = yaml.safe_load((tmp_path / "gate/config.yaml").read_text())["policy"]
    assert (route["allowed_domains"], route["allowed_groups"]) == (["example.com"], ["ops"])


def test_json_is_read_too(tmp_path: Path) -> None:
    assert "Created" in run(tmp_path, "{" + ", ".join(f'"{key}": "{value}"' for key, value in NON_EMPTY.items()) + "}", "answers.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (yaml.safe_dump({**NON_EMPTY, "colour": "red"}), "unknown key colour"),
        (yaml.safe_dump({**NON_EMPTY, "who": {"a": "b"}}), "who must be text"),
        (yaml.safe_dump({key: value for key, value in NON_EMPTY.items() if key != "upstream"}), "upstream: missing"),
        (yaml.safe_dump({**NON_EMPTY, "upstream": "10.0.0.5"}), "upstream: needs a scheme"),
        (yaml.safe_dump({**NON_EMPTY, "provider": "mine"}), "provider: "),
        (yaml.safe_dump({**NON_EMPTY, "certificates": "files", "certificate_files": ["no.pem", "no-key.pem"]}), "no.pem can't be read"),
        ("- a list", "without duplicate keys"),
        ("domain: a.com\ndomain: b.com", "without duplicate keys"),
        ("{", "is not valid YAML"),
    ],
)
def test_unusable_values_are_reported_and_nothing_is_written(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        run(tmp_path, text)
    assert not (tmp_path / "gate/config.yaml").exists()


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as raised:
        run(tmp_path, yaml.safe_dump({**NON_EMPTY, "upstream": "x", "who": "bob", "sign_in_url": "http://a b"}))
    assert {line.partition(":")[0] for line in str(raised.value).splitlines()[1:]} >= {"upstream", "who", "sign_in_url"}


def test_one_invalid_answer_is_reported_once(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as raised:
        run(tmp_path, yaml.safe_dump({**NON_EMPTY, "domain": "localhost", "who": "bob"}))
    lines = str(raised.value).splitlines()[1:]
    assert [line.partition(": ")[0] for line in lines] == ["domain", "who"]


def test_a_file_that_is_not_there_and_a_folder_that_can_t_be_made(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no such file"):
        Command().handle(directory=tmp_path / "gate", answers=tmp_path / "none.yaml", offline=True, systemd=None)
    (tmp_path / "gate").write_text("a file")
    with pytest.raises(CommandError, match="gate already exists"):
        run(tmp_path, yaml.safe_dump(NON_EMPTY))


def test_without_terminal_it_prompts_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as no_terminal:
        monkeypatch.setattr("sys.stdin", no_terminal)
        with pytest.raises(CommandError, match="--answers FILE"):
            Command().handle(directory=tmp_path / "gate", answers=None, offline=True, systemd=None)
