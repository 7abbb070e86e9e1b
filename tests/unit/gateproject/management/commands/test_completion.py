"""`gate completion` knows every command that there is."""

from io import StringIO

import pytest

from gateproject.command import COMMANDS
from gateproject.management.commands.completion import SHELLS, Command, all_commands


def test_every_command_is_completed_with_its_options() -> None:
    found = {command.name: command for command in all_commands()}
    assert list(found) == [short for short, _, _ in COMMANDS]
    assert {"--answers", "--offline"} <= {name for option in found["init"].options for name in option.names}
    assert not any("--settings" in option.names for command in found.values() for option in command.options)


@pytest.mark.parametrize("shell", list(SHELLS))
def test_a_shell_gets_its_script(shell: str) -> None:
    out = StringIO()
    Command(stdout=out).handle(shell=shell)
    assert out.getvalue() == SHELLS[shell](all_commands())
    assert all(short in out.getvalue() for short, _, _ in COMMANDS)
