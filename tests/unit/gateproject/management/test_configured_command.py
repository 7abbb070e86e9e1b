"""Each command that loads the configuration accepts -config, and reports an invalid one in one line."""

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import CommandError
from django.test import override_settings

from foundation.errors import ConfigError, Problem
from gateproject.management.configured_command import ConfiguredCommand, require_options

CONFIGURED = ("rungate", "syncdirectory", "serviceaccount", "reseal", "explainaccess", "replaypolicy")


@pytest.mark.parametrize("name", CONFIGURED)
def test_reports_configuration_in_use(name: str) -> None:
    command = load_command_class(get_commands()[name], name)
    assert isinstance(command, ConfiguredCommand)
    help_text = " ".join(command.create_parser("manage.py", name).format_help().split())
    assert f"-config FILE {command.config_is}" in help_text


@pytest.mark.parametrize("problems", [1, 2])
def test_without_a_usable_configuration_nothing_is_done(problems: int) -> None:
    error = ConfigError([Problem("policy[3].from", "is missing", 7), Problem("address", "is wrong")][:problems])
    for path, what in (("config.yaml", "configuration"), (None, "--config FILE")):
        unusable = override_settings(GATE_OPTIONS=None, GATE_CONFIG_ERROR=error, GATE_CONFIG_PATH=path)
        with unusable, pytest.raises(CommandError) as caught:
            require_options()
        assert what in str(caught.value)
        assert ("--config" in str(caught.value)) is (path is None)
        assert "line 7: policy[3].from: is missing" in str(caught.value)
        assert ("1 more" in str(caught.value)) is (problems == 2)
