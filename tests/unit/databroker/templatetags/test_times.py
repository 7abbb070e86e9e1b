"""The filter that shows times in templates."""

from datetime import UTC, datetime

import pytest

from databroker.templatetags.times import times

TIME = '<time datetime="2027-01-15T08:00:00+00:00" data-form="full">15 Jan 2027, 08:00:00 UTC</time>'


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (datetime(2027, 1, 15, 8, tzinfo=UTC), TIME),
        ("2027-01-15T08:00:00Z", TIME),
        ("<b>, 2027-01-15T08:00:00Z, 0:01:00 before & 2027-01-15T08:00:00Z", f"&lt;b&gt;, {TIME}, 0:01:00 before &amp; {TIME}"),
        ("", ""),
        ("unknown", "unknown"),
        ("2027-01-15T08:00:00+01:00", "2027-01-15T08:00:00+01:00"),
    ],
)
def test_moments_become_times_and_all_else_stays_text(value: datetime | str, written: str) -> None:
    assert times(value) == written
