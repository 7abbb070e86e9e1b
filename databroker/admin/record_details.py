"""Details of one session or user from the store that the admin's tables lack: facts and claims, without secrets."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from databroker.projection.rows import to_datetime
from databroker.records import Record, SessionRecord
from foundation.errors import BrokerError
from foundation.web.times import time_element

# The record of each requested type, None if it does not exist.
StoredRecords = tuple[Record | None, ...]
Facts = list[tuple[str, str]]

# Claims that bind tokens to each other; `_claim_sources` may contain access tokens of other servers (OpenID Connect Core 5.6.2).
_HIDDEN_CLAIMS = frozenset({"nonce", "at_hash", "c_hash", "s_hash", "jti", "sid", "_claim_names", "_claim_sources"})
_SECRET_NAME = re.compile(r"token|secret|password|credential|assertion|private|api_?key|cookie", re.IGNORECASE)
_JWT = re.compile(r"eyJ[\w-]{8,}\.[\w-]+\.")
# Claims with Unix seconds (RFC 7519 4.1; OpenID Connect Core 2 and 5.1).
_TIME_CLAIMS = frozenset({"auth_time", "exp", "iat", "nbf", "updated_at"})
REDACTED = "(not shown)"
MAX_VALUE_LENGTH = 1000

# Every field of a session that may be displayed on a page.  Other fields are secret.
DISCLOSED_FIELDS = ("provider", "issued_at", "expires_at", "access_token_expires_at", "tokens_received_at", "manually_refreshed_at")


def session_facts(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a session's record that may be displayed, and whether it has a refresh token."""
    return {**{name: data.get(name) for name in DISCLOSED_FIELDS}, "can_be_refreshed": bool(data.get("refresh_token"))}


def claims(data: Mapping[str, Any]) -> Facts:
    """Return the claims of a record as (name, value), without secrets, in order of name."""
    stored_claims = data.get("claims")
    if not isinstance(stored_claims, Mapping):
        return []
    secrets = tuple(_token_values(data))
    return [
        (str(name), _disclosed_text(str(name), value, secrets))
        for name, value in sorted(stored_claims.items())
        if name not in _HIDDEN_CLAIMS
    ]


def format_claim(name: str, value: Any) -> str:
    """Format a claim for display: times as times, flat lists without brackets, nested values as JSON."""
    if isinstance(value, str):
        return value
    if name in _TIME_CLAIMS and isinstance(value, int | float) and (moment := to_datetime(value)):
        return time_element(moment)
    if isinstance(value, list) and value and all(isinstance(each, str | int | float) for each in value):
        return ", ".join(format_claim("", each) for each in value)
    return json.dumps(value, ensure_ascii=False)


def fetch_or_message(fetch: Callable[[], StoredRecords]) -> StoredRecords | str:
    """Return the result of `fetch`, or a message if the data broker is unavailable."""
    try:
        return fetch()
    except BrokerError:
        return "The data broker is unavailable."


def render_claims(fetched: StoredRecords | str) -> SafeString | str:
    if isinstance(fetched, str):
        return fetched
    return _facts(fact for record in fetched if record is not None for fact in claims(record.data))


def render_session_facts(fetched: StoredRecords | str) -> SafeString | str:
    """Render the facts of a session's tokens."""
    if isinstance(fetched, str):
        return fetched
    (record,) = fetched
    return _facts(_session_rows(session_facts(record.data))) if record is not None else "It ended."


def _facts(facts: Iterable[tuple[str, str]]) -> SafeString | str:
    return format_html_join("", "<div><b>{}</b>: {}</div>", facts) or "-"


def _session_rows(facts: Mapping[str, Any]) -> Facts:
    """Return the facts of a session's tokens with labels."""
    return [
        ("signed in at", str(facts["provider"] or "an unknown provider")),
        ("access token until", _format_time(facts["access_token_expires_at"])),
        ("last refreshed", _format_time(facts["tokens_received_at"])),
        ("last manual refresh", _format_time(facts["manually_refreshed_at"])),
        ("can be refreshed", "yes" if facts["can_be_refreshed"] else "no"),
    ]


def _format_time(seconds: Any) -> str:
    moment = to_datetime(seconds)
    return time_element(moment) if moment else "-"


def _token_values(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tokens in a record, because a provider may repeat one as a claim."""
    for field in fields(SessionRecord):
        value = data.get(field.name)
        if _SECRET_NAME.search(field.name) and isinstance(value, str) and value:
            yield value


def _disclosed_text(name: str, value: Any, secrets: tuple[str, ...]) -> str:
    text = format_claim(name, _without_secrets(value))
    if _SECRET_NAME.search(name) or _JWT.search(text) or any(secret in text for secret in secrets):
        return REDACTED
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: REDACTED if _SECRET_NAME.search(str(name)) else _without_secrets(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(each) for each in value]
    return value
