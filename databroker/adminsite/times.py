"""Columns and lines of the admin that show a moment of their row."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin

from foundation.web.times import TimeForm, time_element


def time_column(field: str, form: TimeForm = "full", description: str = "") -> Callable[[Any, Any], str]:
    """Method of a ModelAdmin, for `list_display` or `readonly_fields`.  `field` holds a datetime or None."""

    @admin.display(description=description or field.replace("_", " "), ordering=field)
    def shown(own: Any, row: Any) -> str:
        known = getattr(row, field)
        return time_element(known, form) if known else "-"

    return shown
