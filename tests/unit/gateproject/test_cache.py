"""Django's cache is process memory without a kvstore; with one: tests/integration/gateproject/test_cache.py."""

from pathlib import Path

import pytest

from gateproject.cache import caches
from tests.support.options import make_options


@pytest.mark.parametrize("settings", [{}, {"databroker_storage_type": "database"}])
def test_without_a_kvstore_each_process_has_its_own(tmp_path: Path, settings: dict[str, object]) -> None:
    assert "locmem" in caches(make_options(tmp_path, **settings))["default"]["BACKEND"]
    assert "locmem" in caches(None)["default"]["BACKEND"]
