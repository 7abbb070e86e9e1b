"""Criteria of the policy language: names, operators, and the parsers of their operands."""

import base64
import binascii
import re
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from config.fields.basic_types import duration, network, text

_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?")
_METHOD = re.compile(r"[A-Z][A-Z0-9!#$%&'*+.^_`|~-]*")
_HEADER = re.compile(r"[A-Za-z0-9-]+")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_LONG_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

# Headers that any client can set, or that only a trusted proxy sets, cannot decide access.
_NOT_FOR_RULES = {
    "forwarded": "use source_ip, which respects trusted_proxies",
    "x-real-ip": "use source_ip, which respects trusted_proxies",
    "host": "use the route's `from`",
    "cookie": "gate evaluates sessions itself. Use user, groups or claim",
}

TEXT = ("is", "in", "starts_with", "ends_with", "contains", "matches")
# Methods whose messages use a tool, prompt or resource; the first is the usual one.
MCP_METHODS = {
    "tool": ("tools/call",),
    "prompt": ("prompts/get", "completion/complete"),
    "resource": ("resources/read", "resources/subscribe", "resources/unsubscribe", "completion/complete", "subscriptions/listen"),
}
# Criteria on the MCP message of a request (config/routes/route_mcp.py).
MCP_CRITERIA = frozenset({"mcp_method", "mcp_tool", "mcp_resource", "mcp_prompt"})


@dataclass(frozen=True, slots=True)
class CriterionType:
    """Type of a criterion. `short` and `short_list` are the operators of a plain value and of a plain list."""

    operators: tuple[str, ...]
    read_operand: Callable[[str, Any], Any]
    negatable: tuple[str, ...] = ()
    short: str = "is"
    short_list: str = "in"
    argument: str = ""
    read_argument: Callable[[str], str] = lambda written: written
    has_zone: bool = False


def parse_operands(operator: str, value: Any, read_one: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Return the operands of an operator: `is` takes one value, `in` a list, and the others either. A list matches if one element does."""
    if isinstance(value, list | tuple):
        if operator == "is":
            raise ValueError("takes one value. For a list use `in`")
        if not value:
            raise ValueError("must not be an empty list")
        return tuple(read_one(element) for element in value)
    if operator == "in":
        raise ValueError("takes a list. For one value use `is`")
    return (read_one(value),)


def regular_expression(value: Any) -> str:
    """Validate an RE2 expression. Raises ValueError with the position of the error."""
    import re2  # imported on demand: it takes 2 MiB

    expression = text(value)
    options = re2.Options()
    options.log_errors = False  # RE2 would write to stderr
    try:
        re2.compile(expression, options)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else ""
        message = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        offset = expression.find(message.partition(": ")[2])
        raise ValueError(f"is not a valid RE2 expression: {message} (at character {max(offset, 0) + 1})") from None
    return expression


def _text_operand(operator: str, value: Any) -> Any:
    if operator == "exists":
        return _parse_bool(value)
    return parse_operands(operator, value, regular_expression if operator == "matches" else text)


def _claim_operand(operator: str, value: Any) -> Any:
    return parse_operands(operator, value, _scalar) if operator in ("is", "in") else _text_operand(operator, value)


def _scalar(value: Any) -> str | int | float | bool:
    if isinstance(value, bool | int | float):
        return value
    return text(value)


def _parse_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _domain_operand(operator: str, value: Any) -> Any:
    read_one = {"ends_with": _domain_end, "matches": regular_expression}.get(operator, text)
    found = parse_operands(operator, value, read_one)
    if operator in ("is", "in") and any("@" in each for each in found):
        raise ValueError("must be the domain only, as in example.com. Remove the @ and the part before it")
    return found


def _domain_end(value: Any) -> str:
    end = text(value)
    if not end.startswith("."):
        raise ValueError(f"must start with a dot (`.{end!a}`): otherwise {end!a} would also match the end of other names")
    return end


def _email_operand(operator: str, value: Any) -> Any:
    found = _text_operand(operator, value)
    for each in found if operator == "ends_with" else ():
        if not each.startswith((".", "@")):
            raise ValueError(f"must start with @ or a dot (`@{each!a}`): otherwise {each!a} would also match the end of other names")
    for each in found if operator in ("is", "in") else ():
        if "@" not in each:
            raise ValueError(f"{each!a} is not an e-mail address. For all users of a domain use `domain`")
    return found


def _client_operand(operator: str, value: Any) -> Any:
    """Parse ids and domains of OAuth clients. One that also matches the ids or domains of others by mistake is an error."""
    found = _text_operand(operator, value)
    for each in found if operator in ("is", "in", "starts_with") else ():
        _, separator, rest = each.partition("://")
        if separator and "/" not in rest:
            raise ValueError(f"{each!a} must have a path: other domains begin with it. For all clients of a domain write {rest!a}")
    for each in found if operator == "ends_with" else ():
        if "." in each and "/" not in each and not each.startswith("."):
            raise ValueError(f"must start with a dot (`.{each!a}`): otherwise {each!a} would also match the end of other names")
    return found


def _networks(operator: str, value: Any) -> Any:
    return parse_operands("cidr" if operator == "cidr" else operator, value, network)


def _methods(operator: str, value: Any) -> Any:
    return parse_operands(operator, value, _method)


def _method(value: Any) -> str:
    if not isinstance(value, str) or not _METHOD.fullmatch(value):
        raise ValueError("must be a method in upper case, as in GET: methods are case-sensitive (RFC 9110 9.1)")
    return value


def _path_operand(operator: str, value: Any) -> Any:
    found = _text_operand(operator, value)
    for each in found if operator in ("is", "in", "starts_with") else ():
        if not each.startswith("/"):
            raise ValueError(f"{each!a} must start with /")
        if "?" in each:
            raise ValueError(f"{each!a} contains a query. Write the path only")
    if not all(each.isascii() for each in found if operator == "matches"):
        raise ValueError("percent-encode non-ASCII characters, as in a canonical path")
    return found


def _header_name(written: str) -> str:
    name = written.lower()
    if not _HEADER.fullmatch(name):
        raise ValueError("must be http_header/<Name>. A name has letters, digits and hyphens")
    if name.startswith("x-gate-"):
        raise ValueError("names a header that gate sets and removes from client requests. Use another header")
    if name.startswith("x-forwarded-"):
        raise ValueError("names a header that any client may send. Use source_ip, which respects trusted_proxies")
    if name in _NOT_FOR_RULES:
        raise ValueError(f"is not available in rules: {_NOT_FOR_RULES[name]}")
    return name


def _time_of_day(operator: str, value: Any) -> int:
    """Parse seconds since midnight; `before: 24:00` is the end of the day."""
    if value == "24:00" and operator == "before":
        return 24 * 3600
    found = _TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError('must be a time of day from 00:00 to 23:59, in quotes, as in "08:30"')
    return int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3] or 0)


def _days(operator: str, value: Any) -> frozenset[int]:
    return frozenset(day for part in parse_operands(operator, value, _day_range) for day in part)


def _day_range(value: Any) -> tuple[int, ...]:
    """Parse `mon`, `Monday`, or `fri-mon`, which wraps around the end of the week."""
    if not isinstance(value, str):
        raise ValueError("must be a day such as mon, or a range such as mon-fri")
    first, dash, last = (part.strip().lower() for part in value.partition("-"))
    days = [_day(first), _day(last) if dash else _day(first)]
    count = (days[1] - days[0]) % 7 + 1
    return tuple((days[0] + offset) % 7 for offset in range(count))


def _day(name: str) -> int:
    for names in (_DAYS, _LONG_DAYS):
        if name in names:
            return names.index(name)
    raise ValueError(f"{name[:20]!a} is not a day: write mon, tue, wed, thu, fri, sat or sun, or a range such as mon-fri")


def _date(operator: str, value: Any) -> datetime:
    """Parse a date without a zone, which the comparison adds. A date without a time is its first moment."""
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        raise ValueError("must be a date such as 2027-01-31, or 2027-01-31T18:00")
    if operator == "is" and len(value) != 10:
        raise ValueError("takes a whole day, as in 2027-01-31. For a time use after and before")
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("is not a date of the calendar") from None


def _age(operator: str, value: Any) -> float:
    return duration(value).total_seconds()


def _parse_true(operator: str, value: Any) -> bool:
    if value is not True:
        raise ValueError("takes true. For the opposite use `not: {granted: true}`")
    return True


def _certificate_hash(operator: str, value: Any) -> tuple[str, ...]:
    return parse_operands(operator, value, fingerprint if operator == "fingerprint" else spki_hash)


def fingerprint(value: Any) -> str:
    """Parse a fingerprint as `openssl x509 -fingerprint -sha256` prints it, with or without colons."""
    digits = str(value).replace(":", "").lower() if isinstance(value, str) else ""
    if not _FINGERPRINT.fullmatch(digits):
        raise ValueError("must be the SHA-256 fingerprint of a certificate: 64 hexadecimal digits, with colons or without")
    return digits


def spki_hash(value: Any) -> str:
    try:
        digest = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (ValueError, binascii.Error):
        digest = b""
    if len(digest) != 32:
        raise ValueError("must be the base64 of the SHA-256 of a public key (SubjectPublicKeyInfo): 44 characters")
    return base64.b64encode(digest).decode()


def time_zone(value: Any) -> str:
    try:
        return zoneinfo.ZoneInfo(text(value)).key
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        raise ValueError("must be a time zone such as Europe/Berlin") from None


CRITERIA: dict[str, CriterionType] = {
    "email": CriterionType(TEXT, _email_operand, TEXT),
    "domain": CriterionType(("is", "in", "ends_with", "matches"), _domain_operand, ("is", "in", "ends_with", "matches")),
    "user": CriterionType(("is", "in"), _text_operand, ("is", "in")),
    "groups": CriterionType(
        ("is", "in", "starts_with", "ends_with", "matches"), _text_operand, ("is", "in", "starts_with", "ends_with", "matches")
    ),
    "provider": CriterionType(("is", "in"), _text_operand, ("is", "in")),
    "claim": CriterionType((*TEXT, "exists"), _claim_operand, TEXT, argument="path"),
    "client": CriterionType(TEXT, _client_operand, TEXT),
    "scope": CriterionType(TEXT, _text_operand, TEXT),
    "source_ip": CriterionType(("is", "in", "cidr"), _networks, ("is", "in", "cidr")),
    "http_method": CriterionType(("is", "in"), _methods, ("is", "in")),
    "http_path": CriterionType(TEXT, _path_operand, TEXT),
    "http_header": CriterionType((*TEXT, "exists"), _text_operand, TEXT, argument="Name", read_argument=_header_name),
    "mcp_method": CriterionType(TEXT, _text_operand, TEXT),
    "mcp_tool": CriterionType(TEXT, _text_operand, TEXT),
    "mcp_resource": CriterionType(TEXT, _text_operand, TEXT),
    "mcp_prompt": CriterionType(TEXT, _text_operand, TEXT),
    "time_of_day": CriterionType(("after", "before"), _time_of_day, short="", short_list="", has_zone=True),
    "day_of_week": CriterionType(("is", "in"), _days, ("is", "in"), has_zone=True),
    "date": CriterionType(("is", "after", "before"), _date, ("is",), short_list="", has_zone=True),
    "client_certificate": CriterionType(("fingerprint", "spki"), _certificate_hash, ("fingerprint", "spki"), short="", short_list=""),
    "acr": CriterionType(("is", "in"), _text_operand, ("is", "in")),
    "session_age": CriterionType(("at_most", "at_least"), _age, short="at_most", short_list=""),
    "granted": CriterionType(("is",), _parse_true, short_list=""),
}
