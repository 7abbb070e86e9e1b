"""Template filter that shows times in the zone of the browser (foundation/web/times.py)."""

import re
from datetime import datetime

from django import template
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from foundation.web.times import time_element

register = template.Library()

# As explanations write a moment, in JSON and on the command line as well.
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")


@register.filter
def times(value: datetime | str) -> SafeString:
    """A datetime as a time; or a text in which each moment is one."""
    if isinstance(value, datetime):
        return time_element(value)
    parts = _MOMENT.split(value)
    return format_html_join(
        "", "{}", ((time_element(datetime.fromisoformat(part)) if index % 2 else part,) for index, part in enumerate(parts))
    )
