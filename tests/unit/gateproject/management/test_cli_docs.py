"""The reference lists every command with every option, in sentences."""

import re

import pytest
from django.core.management import load_command_class

from gateproject.command import COMMANDS
from gateproject.management.cli_docs import cli_page

PAGE = cli_page()


def section(name: str) -> str:
    return re.split(r"\n##+ ", PAGE.partition(f"\n### `{name}`\n")[2])[0]


def test_every_command_has_a_section_in_the_order_of_the_help() -> None:
    assert re.findall(r"^### `gate ([\w-]+)`$", PAGE, re.MULTILINE) == [short for short, _, _ in COMMANDS]


@pytest.mark.parametrize(("short", "name"), [(short, name) for short, name, _ in COMMANDS])
def test_every_option_that_the_parser_knows_is_listed(short: str, name: str) -> None:
    help_text = load_command_class("gateproject", name).create_parser("gate", short).format_help()
    written = set(re.findall(r"--?[a-z-]+", PAGE.partition(f"\n### `gate {short}`\n")[2].partition("\n### ")[0]))
    # argparse wraps lines after hyphens.
    options = set(re.findall(r"(?<![\w-])--[a-z-]+", re.sub(r"-\n\s*", "-", help_text))) - {"--help"}
    assert options <= written


def test_a_row_has_the_value_and_a_sentence() -> None:
    assert "| `--config FILE` | Configuration file (default: GATE_CONFIG, else ./config.yaml). |" in section("gate run")
    assert "One of `text`, `json`, `sarif`." in section("gate check")
    assert [row for row in PAGE.splitlines() if row.startswith("| `") and "manage.py" not in row and not re.search(r"[.?] \|$", row)] == []


def test_names_of_management_commands_stand_in_one_table() -> None:
    assert "| `gate check` | `manage.py checkconfig` |" in PAGE
