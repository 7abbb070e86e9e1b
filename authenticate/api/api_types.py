"""API values: the types of what a request says and an answer holds, each with its JSON Schema."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

MAX_PAGE_SIZE, DEFAULT_PAGE_SIZE = 200, 50
MAX_CURSOR_LENGTH = 1000
_NUMBER = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


class RequestModel(BaseModel):
    """A part of a request: what it does not know is refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ResponseModel(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(frozen=True)


def _whole_number(said: Any) -> Any:
    if not isinstance(said, str) or not _NUMBER.fullmatch(said):
        raise ValueError("must be a whole number")
    return int(said)


def _moment(said: Any) -> datetime:
    """A time as RFC 3339 writes it, in UTC."""
    if not isinstance(said, str) or not _MOMENT.fullmatch(said):
        raise ValueError("must be a time as in 2027-01-31T18:00:00Z")
    head, _, rest = said.upper().partition("T")
    # A leap second (RFC 3339, 5.7) is a time that no clock of ours has.
    clock = f"{rest[:6]}59{rest[8:]}" if rest[6:8] == "60" else rest
    zone = re.search(r"(?:Z|[+-]\d\d:\d\d)$", clock)
    fraction = clock[8 : zone.start()] if zone else ""
    try:
        found = datetime.fromisoformat(f"{head}T{clock[:8]}{fraction[:7]}{'' if zone is None else zone[0]}")
    except ValueError:
        raise ValueError("must be a valid time") from None
    try:
        return found.astimezone(UTC)
    except OverflowError:  # at either end of the calendar
        return found.replace(tzinfo=UTC)


# What no id, name or search has; a NUL is in no text of PostgreSQL.
PLAIN_PATTERN = r"^[^\x00-\x1f\x7f]*$"
PlainText = Annotated[str, StringConstraints(min_length=1, max_length=320, pattern=PLAIN_PATTERN)]
DateTimeParam = Annotated[datetime, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})]
PageSize = Annotated[
    int,
    BeforeValidator(_whole_number),
    AfterValidator(lambda number: number if number <= MAX_PAGE_SIZE else _too_many()),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE, "default": DEFAULT_PAGE_SIZE}),
]
CursorText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_CURSOR_LENGTH, pattern=r"^[A-Za-z0-9_-]+$")]


def _too_many() -> int:
    raise ValueError(f"must be at most {MAX_PAGE_SIZE}")


class PageQuery(RequestModel):
    """Query of a list: where a page begins, and how much it holds at most."""

    limit: PageSize = Field(DEFAULT_PAGE_SIZE, description="Maximum number of items.")
    cursor: CursorText | None = Field(None, description="`next` of the previous page.")


class EmptyQuery(RequestModel):
    """Query of what has none."""


def to_rfc3339(moment: datetime | float | None) -> str | None:
    """A time as answers write it: UTC, whole seconds; None also for what no calendar has."""
    if moment is None or moment == 0:
        return None
    try:
        found = moment if isinstance(moment, datetime) else datetime.fromtimestamp(moment, UTC)
    except (OverflowError, ValueError, OSError, TypeError):
        return None
    return found.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Timestamp = Annotated[str | None, WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]})]
