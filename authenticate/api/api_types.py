"""Types of API requests and responses, each with its JSON Schema."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

MAX_PAGE_SIZE, DEFAULT_PAGE_SIZE = 200, 50
MAX_CURSOR_LENGTH = 1000
_INTEGER = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


class RequestModel(BaseModel):
    """Part of a request.  Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ResponseModel(BaseModel):
    """Part of a response."""

    model_config = ConfigDict(frozen=True)


def _parse_integer(value: Any) -> Any:
    if not isinstance(value, str) or not _INTEGER.fullmatch(value):
        raise ValueError("must be a whole number")
    return int(value)


def _parse_rfc3339(value: Any) -> datetime:
    """Return an RFC 3339 time in UTC."""
    if not isinstance(value, str) or not _RFC3339.fullmatch(value):
        raise ValueError("must be a time as in 2027-01-31T18:00:00Z")
    date, _, rest = value.upper().partition("T")
    # Python's datetime has no leap seconds (RFC 3339, 5.7).
    clock = f"{rest[:6]}59{rest[8:]}" if rest[6:8] == "60" else rest
    zone = re.search(r"(?:Z|[+-]\d\d:\d\d)$", clock)
    fraction = clock[8 : zone.start()] if zone else ""
    try:
        parsed = datetime.fromisoformat(f"{date}T{clock[:8]}{fraction[:7]}{'' if zone is None else zone[0]}")
    except ValueError:
        raise ValueError("must be a valid time") from None
    try:
        return parsed.astimezone(UTC)
    except OverflowError:  # in the first or last day of the calendar
        return parsed.replace(tzinfo=UTC)


# No id, name or search has control characters, and PostgreSQL stores no NUL.
PLAIN_PATTERN = r"^[^\x00-\x1f\x7f]*$"
PlainText = Annotated[str, StringConstraints(min_length=1, max_length=320, pattern=PLAIN_PATTERN)]
DateTimeParam = Annotated[datetime, BeforeValidator(_parse_rfc3339), WithJsonSchema({"type": "string", "format": "date-time"})]
PageSize = Annotated[
    int,
    BeforeValidator(_parse_integer),
    AfterValidator(lambda number: number if number <= MAX_PAGE_SIZE else _refuse_page_size()),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MAX_PAGE_SIZE, "default": DEFAULT_PAGE_SIZE}),
]
CursorText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_CURSOR_LENGTH, pattern=r"^[A-Za-z0-9_-]+$")]


def _refuse_page_size() -> int:
    raise ValueError(f"must be at most {MAX_PAGE_SIZE}")


class PageQuery(RequestModel):
    """Query of a list: the cursor after which a page begins, and the page size."""

    limit: PageSize = Field(DEFAULT_PAGE_SIZE, description="Maximum number of items.")
    cursor: CursorText | None = Field(None, description="`next` of the previous page.")


class EmptyQuery(RequestModel):
    """Query of an operation without parameters."""


def to_rfc3339(time: datetime | float | None) -> str | None:
    """Return a time in UTC and whole seconds, or None if there is none or `datetime` cannot represent it."""
    if time is None or time == 0:
        return None
    try:
        moment = time if isinstance(time, datetime) else datetime.fromtimestamp(time, UTC)
    except (OverflowError, ValueError, OSError, TypeError):
        return None
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


Timestamp = Annotated[str | None, WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]})]
