"""`gate status` without a running gate; with one: tests/integration/test_status.py."""

import pytest
from django.core.management.base import CommandError

from gateproject.management.commands import status
from gateproject.management.commands.status import Command
from tests.support.children import free_port


def run(*addresses: str, every: float = 2.0) -> int:
    try:
        Command().handle(at=list(addresses), watch=False, every=every, config=None)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_unreachable_services_exit_with_1_and_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(status, "MOMENT", 0.0)
    one, other = (f"127.0.0.1:{free_port()}" for _ in range(2))
    assert run(one, other) == 1
    text = capsys.readouterr().out
    assert f"no response from {one}" in text
    assert f"no response from {other}" in text


def test_no_time_between_two_looks_is_an_error() -> None:
    with pytest.raises(CommandError, match="above 0"):
        run("127.0.0.1:1", every=0.0)
