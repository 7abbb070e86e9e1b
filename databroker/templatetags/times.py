"""Template filter that displays times in the browser's time zone (foundation/web/times.py)."""

import re
from datetime import datetime

from django import template
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from foundation.web.times import time_element

register = template.Library()

# Format of times in explanations, also in JSON and on the command line.
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")


@register.filter
def times(value: datetime | str) -> SafeString:
    """Return a datetime as a time element, or a text in which each time is one."""
    if isinstance(value, datetime):
        return time_element(value)
    parts = _MOMENT.split(value)
    return format_html_join(
        "", "{}", ((time_element(datetime.fromisoformat(part)) if index % 2 else part,) for index, part in enumerate(parts))
    )
