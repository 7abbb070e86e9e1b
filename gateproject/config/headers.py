"""Which header names and values may a configuration name?"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import PlainValidator

from gateproject.config.fields import text_list

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 5.6.2
_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")  # no control characters: neither C0 nor C1 (0x85 is a line end to some)

# RFC 9110 7.6.1 and what frames a message: set by the connection, never by a configuration.
CONNECTION_HEADERS = frozenset(
    {"connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def folded(name: str) -> str:
    """The form in which servers that map headers to variables can't tell two names apart."""
    return name.lower().replace("_", "-").replace(".", "-")


def header_name(value: Any) -> str:
    if not isinstance(value, str) or not is_token(value):
        raise ValueError("a header name holds letters, digits and hyphens (RFC 9110 5.6.2)")
    return value


def header_map(value: Any) -> Mapping[str, str]:
    """A map, a JSON object as text, or `Name:value,Name:value`."""
    pairs = _pairs(value) if isinstance(value, str) else value
    if not isinstance(pairs, Mapping):
        raise ValueError("must be a map of header names to values")
    seen: set[str] = set()
    for name, content in pairs.items():
        _check_header(header_name(name), content)
        if name.lower() in seen:
            raise ValueError(f"{name} is there twice")
        seen.add(name.lower())
    return dict(pairs)


def _check_header(name: str, content: Any) -> None:
    if name.lower() in CONNECTION_HEADERS:
        raise ValueError(f"{name} belongs to the connection and can't be set")
    if not isinstance(content, str):
        raise ValueError(f"the value of {name} must be text: put it in quotes")
    if not _VALUE.fullmatch(content):
        raise ValueError(f"the value of {name} must be Latin-1 text without control characters")


def response_headers(value: Any) -> Mapping[str, str]:
    """As `header_map`; `disable: true` switches all of them off."""
    pairs = _pairs(value) if isinstance(value, str) else value
    if not isinstance(pairs, Mapping) or "disable" not in pairs:
        return header_map(pairs)
    if str(pairs["disable"]).lower() not in ("true", "false"):
        raise ValueError("disable must be true or false")
    others = header_map({name: content for name, content in pairs.items() if name != "disable"})
    return {} if str(pairs["disable"]).lower() == "true" else others


def request_headers(value: Any) -> Mapping[str, str]:
    headers = header_map(value)
    for name in headers:
        if folded(name).startswith("x-gate-"):
            raise ValueError(f"{name} says who the user is and can't be set by hand")
    return headers


def removable_headers(value: Any) -> tuple[str, ...]:
    names = tuple(header_name(name) for name in text_list(value))
    for name in names:
        if name.lower() in ("host", "content-length", "transfer-encoding"):
            raise ValueError(f"{name} is needed for a valid request and can't be removed")
    return names


def claim_names(value: Any) -> tuple[str, ...]:
    names = text_list(value)
    for name in names:
        if not is_token(name):
            raise ValueError(f"{name!a} can't be a part of the header name X-Gate-Claim-{{Name}}")
    return names


def _pairs(text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        return _json_object(text)
    pairs: dict[str, Any] = {}
    for element in text.split(","):
        name, colon, content = element.partition(":")
        if not colon:
            raise ValueError("must be a JSON object, or Name:value pairs with commas between them")
        if name.strip() in pairs:
            raise ValueError("holds a name twice")
        pairs[name.strip()] = content.strip()
    return pairs


def _json_object(text: str) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("is not valid JSON") from None
    return parsed


ResponseHeaders = Annotated[Mapping[str, str], PlainValidator(response_headers)]
RequestHeaders = Annotated[Mapping[str, str], PlainValidator(request_headers)]
RemovableHeaders = Annotated[tuple[str, ...], PlainValidator(removable_headers)]
ClaimNames = Annotated[tuple[str, ...], PlainValidator(claim_names)]
