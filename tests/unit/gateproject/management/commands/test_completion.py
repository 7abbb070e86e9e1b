"""`gate completion` covers every command."""

import re
from io import StringIO

import pytest

from gateproject.command import COMMANDS
from gateproject.management.commands.completion import SHELLS, Command


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_gets_every_command_with_its_options(shell: str) -> None:
    out = StringIO()
    Command(stdout=out).handle(shell=shell)
    script = out.getvalue()
    assert {*(short for short, _, _ in COMMANDS), "answers", "offline"} <= set(re.findall(r"\w[\w-]*", script))
    assert "settings" not in script  # an option of Django's own
