"""`replaypolicy` prints the decisions that a changed configuration would change."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from gateproject.management.commands.replaypolicy import Command
from tests.support.options import make_options
from tests.unit.authorize.builders import user
from tests.unit.authorize.logged import APP, POLICY, log_decision

CHANGED = [{**APP, "allowed_users": ["bob@corp.com"], "name": "Wages"}]


@pytest.fixture
def run(database: None, tmp_path: Path):
    log_decision(tmp_path, "r1", user())
    log_decision(tmp_path, "r2", user("bob@corp.com", subject="2"))

    def command(policy: list[dict[str, Any]], *arguments: str) -> str:
        out = StringIO()
        with override_settings(GATE_OPTIONS=make_options(tmp_path, policy=policy), GATE_CONFIG_ERROR=None):
            call_command(Command(stdout=out), *arguments)
        return out.getvalue()

    return command


def test_text_lists_users_by_route_with_reasons(run) -> None:
    output = run(CHANGED)
    assert "2 decisions replayed, 0 not replayed." in output
    assert "Newly denied:\n  Wages  ann@corp.com: 1 request, last r1: " in output
    assert "Newly allowed:\n  Wages  bob@corp.com: 1 request, last r2" in output
    assert "No outcome changed" in run(POLICY)


def test_programmatic_output_is_the_same_as_json(run) -> None:
    found = json.loads(run(CHANGED, "--json"))
    assert (found["replayed"], [change["user"] for change in found["changes"]]) == (2, ["ann@corp.com", "bob@corp.com"])


def test_a_change_fails_a_strict_run_and_none_does_not(run) -> None:
    with pytest.raises(SystemExit):
        run(CHANGED, "--strict")
    run(POLICY, "--strict")


def test_old_decisions_may_be_left_out(run) -> None:
    # The decisions are of 2027, which no clock has passed for less than a year.
    assert "2 decisions" in run(POLICY, "--within", "8760h")
    with pytest.raises(CommandError, match="--within"):
        run(POLICY, "--within", "yesterday")
