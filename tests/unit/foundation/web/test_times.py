"""Times as pages format them."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.utils import translation
from django.utils.timezone import override

from foundation.web.pages import TIMES_SCRIPT
from foundation.web.times import FORMS, TimeForm, time_element


@pytest.mark.parametrize(
    ("zone", "form", "written"),
    [
        ("UTC", "day", "15 Jan 2027 UTC"),
        ("UTC", "clock", "08:00 UTC"),
        ("UTC", "short", "15 Jan, 08:00 UTC"),
        ("UTC", "long", "15 Jan 2027, 08:00 UTC"),
        ("UTC", "full", "15 Jan 2027, 08:00:00 UTC"),
        ("Europe/Berlin", "exact", "15 Jan, 09:00:00 CET"),
        ("Pacific/Kiritimati", "day", "15 Jan 2027 +14"),
    ],
)
def test_time_has_zone_and_utc_value(zone: str, form: TimeForm, written: str) -> None:
    known = datetime(2027, 1, 15, 8, tzinfo=UTC)
    for same in (known, known.timestamp(), datetime(2027, 1, 15, 17, tzinfo=timezone(timedelta(hours=9)))):
        with override(zone):
            element = time_element(same, form)
        assert element == f'<time datetime="2027-01-15T08:00:00+00:00" data-form="{form}">{written}</time>'


def test_the_browser_knows_each_form() -> None:
    (forms,) = re.findall(r"(?s)const forms = \{(.*?)\n  \};", TIMES_SCRIPT)
    assert re.findall(r"(?m)^ {4}(\w+)", forms) == [*FORMS]


@pytest.mark.parametrize(
    ("language", "written"), [("en", "15 May 2027"), ("de", "15. Mai 2027"), ("fr", "15 mai 2027"), ("es", "15 may 2027")]
)
def test_a_time_is_in_the_language_of_its_page(language: str, written: str) -> None:
    with translation.override(language):
        assert f">{written}, 08:00 UTC<" in time_element(datetime(2027, 5, 15, 8, tzinfo=UTC), "long")
