"""The admin's navigation, and the Django accounts that may sign in by password."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from django.http import HttpRequest

from gateproject import admin_site
from gateproject.admin_site import SECTIONS, site


def test_every_page_of_the_admin_stands_in_one_section():
    assert Counter(name for _, names in SECTIONS for name in names) == Counter(model.__name__ for model in site._registry)


@pytest.mark.parametrize(
    ("allowed", "account", "expected"),
    [
        (True, {"is_superuser": True}, True),
        (True, {"is_superuser": False}, False),
        (True, {"is_superuser": True, "is_staff": False}, False),
        (True, {"is_superuser": True, "is_active": False}, False),
        (False, {"is_superuser": True}, False),
    ],
)
def test_only_superusers_enter_by_password(allowed: bool, account: dict[str, Any], expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(options=SimpleNamespace(admin_password_login=allowed))
    monkeypatch.setattr(admin_site, "page_context", lambda request: context)
    request = HttpRequest()
    request.user = SimpleNamespace(**{"is_active": True, "is_staff": True, **account})  # type: ignore[assignment]
    request.session = {}  # type: ignore[assignment]
    assert site.has_permission(request) is expected
