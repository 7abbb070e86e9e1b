"""Times on pages: in the zone of `time_zone`, which is named, until the browser shows its own (static/times.js)."""

from datetime import UTC, datetime
from typing import Literal

from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime

TimeForm = Literal["day", "clock", "short", "exact", "long", "full"]
# In Django's letters; times.js has the same forms in words of the browser.
FORMS: dict[TimeForm, str] = {
    "day": "j M Y e",
    "clock": "H:i e",
    "short": "j M, H:i e",
    "exact": "j M, H:i:s e",
    "long": "j M Y, H:i e",
    "full": "j M Y, H:i:s e",
}


def time_element(known: datetime | float, form: TimeForm = "full") -> SafeString:
    """A `<time>` of a moment: aware, or in Unix seconds."""
    at = known if isinstance(known, datetime) else datetime.fromtimestamp(known, UTC)
    written, moment = date_format(localtime(at), FORMS[form]), at.astimezone(UTC).isoformat(timespec="seconds")
    return format_html('<time datetime="{}" data-form="{}">{}</time>', moment, form, written)
