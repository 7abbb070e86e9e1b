"""Timeline words: which decisions hold all words of a search, each looked for where its form says that it belongs."""

import re
from datetime import UTC, datetime
from typing import Any

from django.db.models import Max, Q, QuerySet

from authorize.explain.invented_request import described_moment
from authorize.models import LoggedDecision
from databroker.adminsite.search import MOST_WORDS
from foundation.values import ip_of

# No index serves a word in the middle of a text: of a larger log the newest are looked through.
LOOKED_THROUGH = 200_000
_TIMES = {"after:": "at__gte", "before:": "at__lt"}
_REQUEST_ID = re.compile(r"[0-9A-Fa-f]{32}")


def with_words(rows: QuerySet[LoggedDecision], text: str) -> QuerySet[LoggedDecision]:
    """Decisions with all of these words; ValueError.  `after:` and `before:` narrow the time; every other word must be somewhere.

    What shows by its form where it belongs is looked for only there: request ids and whole e-mail addresses by their index.
    """
    is_found_by_index = False
    for word in text.replace("\x00", "").split()[:MOST_WORDS]:
        if moment := next((lookup for beginning, lookup in _TIMES.items() if word.startswith(beginning)), None):
            rows = rows.filter(**{moment: _moment(word)})
        elif (named := _named(word)) and rows.filter(**named).exists():
            rows, is_found_by_index = rows.filter(**named), True
        elif address := str(ip_of(word) or ""):
            rows = (rows if is_found_by_index else newest(rows)).filter(client_address__in={word, address})
        else:
            rows = (rows if is_found_by_index else newest(rows)).filter(_anywhere(word))
    return rows


def newest(rows: QuerySet[LoggedDecision]) -> QuerySet[LoggedDecision]:
    """The newest of them, as many as one look may take: by time, which the order of the timeline and its indexes go by."""
    last = LoggedDecision.objects.aggregate(last=Max("pk"))["last"] or 0
    oldest = LoggedDecision.objects.filter(pk__lte=last - LOOKED_THROUGH).order_by("-pk").values_list("at", flat=True).first()
    return rows if oldest is None else rows.filter(at__gte=oldest)


def _moment(word: str) -> datetime:
    try:
        return datetime.fromtimestamp(described_moment(word.partition(":")[2]), UTC)
    except ValueError as error:
        raise ValueError(f"{word}: {error}") from None


def _named(word: str) -> dict[str, Any]:
    """The indexed column that may hold exactly this word; nothing where its form names none."""
    if _REQUEST_ID.fullmatch(word):
        return {"request_id": word.lower()}
    return {"person": word} if "@" in word else {}


def _anywhere(word: str) -> Q:
    exactly = Q(request_id=word) | Q(route_id=word)
    return exactly | Q(person__holds=word) | Q(person_id__holds=word) | Q(route__holds=word) | Q(url__icontains=word)
