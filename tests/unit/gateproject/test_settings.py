"""Django's cookie settings."""

from pathlib import Path
from typing import Any

import pytest

from gateproject.settings import cookie_settings
from tests.support.options import make_options


@pytest.mark.parametrize(
    ("options", "name", "path"),
    [
        ({}, "__Host-_gate_admin", "/"),
        ({"cookie_name": "__Host-gate"}, "__Host-gate_admin", "/"),
        ({"cookie_domain": "example.com"}, "__Host-_gate_admin", "/"),
        ({"cookie_secure": False}, "_gate_admin", "/.gate/admin/"),
    ],
)
def test_the_admins_cookies_can_be_set_by_their_own_host_alone(tmp_path: Path, options: dict[str, Any], name: str, path: str) -> None:
    settings = cookie_settings(make_options(tmp_path, **options))
    assert (settings["SESSION_COOKIE_NAME"], settings["CSRF_COOKIE_NAME"]) == (name, f"{name}_csrf")
    assert (settings["SESSION_COOKIE_PATH"], settings["CSRF_COOKIE_PATH"]) == (path, path)
    assert settings["SESSION_COOKIE_SECURE"] is settings["CSRF_COOKIE_SECURE"] is ("cookie_secure" not in options)
    assert "SESSION_COOKIE_DOMAIN" not in settings
