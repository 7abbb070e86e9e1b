"""The reference lists every command with every option, in sentences."""

import re

from gateproject.command import COMMANDS
from gateproject.management.cli_page import cli_page
from gateproject.management.commands.completion import all_commands

PAGE = cli_page()


def section(name: str) -> str:
    return re.split(r"\n##+ ", PAGE.partition(f"\n### `{name}`\n")[2])[0]


def test_every_command_has_a_section_in_the_order_of_the_help() -> None:
    assert re.findall(r"^### `gate ([\w-]+)`$", PAGE, re.MULTILINE) == [short for short, _, _ in COMMANDS]


def test_every_option_that_the_parser_knows_is_listed() -> None:
    for command in all_commands():
        of_command = PAGE.partition(f"\n### `gate {command.name}`\n")[2].partition("\n### ")[0]
        written = set(re.findall(r"--[a-z-]+", of_command))
        missing = [
            option.names for option in command.options if "-h" not in option.names and f"--{option.names[-1].lstrip('-')}" not in written
        ]
        assert missing == [], command.name


def test_a_row_has_the_value_and_a_sentence() -> None:
    assert "| `--config FILE` | Configuration file (default: GATE_CONFIG, else ./config.yaml). |" in section("gate run")
    assert "One of `text`, `json`, `sarif`." in section("gate check")
    assert [row for row in PAGE.splitlines() if row.startswith("| `") and "manage.py" not in row and not re.search(r"[.?] \|$", row)] == []


def test_names_of_management_commands_stand_in_one_table() -> None:
    assert "| `gate check` | `manage.py checkconfig` |" in PAGE
