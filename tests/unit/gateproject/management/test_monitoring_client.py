"""The address of the monitoring endpoints, from environment or configuration; `page` is in commands/test_checkready.py."""

from pathlib import Path

import pytest
from django.core.management.base import CommandError

from gateproject.management.monitoring_client import metrics_address


def test_reads_configuration_from_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METRICS_ADDRESS", "127.0.0.1:9999")
    assert metrics_address() == "127.0.0.1:9999"


def test_missing_configuration_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("METRICS_ADDRESS", raising=False)
    monkeypatch.delenv("GATE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError, match="use --at HOST:PORT"):
        metrics_address()
