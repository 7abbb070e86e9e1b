"""A command's help has gate's options only."""

import pytest

from gateproject.management.commands.checkconfig import Command
from gateproject.management.gate_command import command_name


def test_the_help_has_the_options_of_the_command_and_none_of_django(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["/usr/bin/gate", "checkconfig", "--help"])
    output = capsys.readouterr().out
    assert ended.value.code == 0
    assert output.startswith("usage: gate check [-h]")
    assert all(option in output for option in ("-config", "--format", "--online", "--strict"))
    assert not any(option in output for option in ("--settings", "--pythonpath", "--traceback", "--verbosity", "--version", "color"))


@pytest.mark.parametrize(
    ("program", "command", "name"),
    [("/usr/bin/gate", "rungate", "run"), ("manage.py", "rungate", "rungate"), ("gate", "unheard-of", "unheard-of")],
)
def test_a_command_is_called_as_it_was_typed(program: str, command: str, name: str) -> None:
    assert command_name(program, command) == name
