"""Columns of moments."""

from datetime import UTC, datetime
from types import SimpleNamespace

from databroker.adminsite.times import time_column


def test_a_column_is_named_and_ordered_as_its_field_and_may_be_empty() -> None:
    column = time_column("last_seen", "day")
    assert (column.short_description, column.admin_order_field) == ("last seen", "last_seen")
    assert time_column("rotated", description="last new secret").short_description == "last new secret"
    assert ">15 Jan 2027 UTC<" in column(None, SimpleNamespace(last_seen=datetime(2027, 1, 15, 8, tzinfo=UTC)))
    assert column(None, SimpleNamespace(last_seen=None)) == "-"
