"""Times on pages: in the zone of `time_zone`, which is named, until the browser shows its own (static/times.js)."""

from datetime import UTC, datetime
from typing import Literal

from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import get_language

TimeForm = Literal["day", "clock", "short", "exact", "long", "full"]
# In Django's letters, which write months in the language of the page; times.js has the same forms in words of the browser.
FORMS: dict[TimeForm, str] = {
    "day": "j M Y e",
    "clock": "H:i e",
    "short": "j M, H:i e",
    "exact": "j M, H:i:s e",
    "long": "j M Y, H:i e",
    "full": "j M Y, H:i:s e",
}
# Day and month where a language writes them otherwise.
_DAY, _DAY_IN = "j M", {"de": "j. M", "es": "j b", "fr": "j b"}


def time_element(known: datetime | float, form: TimeForm = "full") -> SafeString:
    """A `<time>` of a moment: aware, or in Unix seconds."""
    at = known if isinstance(known, datetime) else datetime.fromtimestamp(known, UTC)
    letters = FORMS[form].replace(_DAY, _DAY_IN.get(get_language() or "", _DAY))
    written, moment = date_format(localtime(at), letters), at.astimezone(UTC).isoformat(timespec="seconds")
    return format_html('<time datetime="{}" data-form="{}">{}</time>', moment, form, written)
