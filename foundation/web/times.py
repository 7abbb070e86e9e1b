"""Times on pages, in `time_zone`; static/times.js replaces them with the browser's time zone."""

from datetime import UTC, datetime
from typing import Literal

from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import get_language

TimeForm = Literal["day", "clock", "short", "exact", "long", "full"]
# Django date formats, which use the page's language; times.js has the same forms in the browser's locale.
FORMS: dict[TimeForm, str] = {
    "day": "j M Y e",
    "clock": "H:i e",
    "short": "j M, H:i e",
    "exact": "j M, H:i:s e",
    "long": "j M Y, H:i e",
    "full": "j M Y, H:i:s e",
}
# Day and month in languages that format them differently.
_DAY, _DAY_IN = "j M", {"de": "j. M", "es": "j b", "fr": "j b"}


def time_element(value: datetime | float, form: TimeForm = "full") -> SafeString:
    """Return a `<time>` element; `value` is an aware datetime or Unix seconds."""
    moment = value if isinstance(value, datetime) else datetime.fromtimestamp(value, UTC)
    letters = FORMS[form].replace(_DAY, _DAY_IN.get(get_language() or "", _DAY))
    text, machine_readable = date_format(localtime(moment), letters), moment.astimezone(UTC).isoformat(timespec="seconds")
    return format_html('<time datetime="{}" data-form="{}">{}</time>', machine_readable, form, text)
