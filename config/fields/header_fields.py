"""Names and values of HTTP headers in the configuration."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from config.fields.basic_types import boolean, parse_pairs, text_list
from config.fields.field_type import BOOL, LIST, FieldType, JsonSchema, control_characters
from config.fields.header_template import template

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 5.6.2
_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")  # neither C0 nor C1 control characters (some parsers treat 0x85 as a line end)

# Hop-by-hop headers (RFC 9110 7.6.1) and message framing: set by the connection, never by the configuration.
CONNECTION_HEADERS = frozenset(
    {"connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)


# Headers that may occur several times in a response, or whose value only gate can know.
_FORBIDDEN_RESPONSE_HEADERS = {
    "set-cookie": "cookies belong to the application",
    "alt-svc": "use the setting http3",
}


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def fold_name(name: str) -> str:
    """Return the name as servers fold it that map headers to variables: `X-A` and `x_a` become one name."""
    return name.lower().replace("_", "-").replace(".", "-")


def header_name(value: Any) -> str:
    if not isinstance(value, str) or not is_token(value):
        raise ValueError("invalid header name: use letters, digits and hyphens (RFC 9110 5.6.2)")
    return value


def header_map(value: Any) -> Mapping[str, str]:
    """Parse a map, a JSON object as text, or `Name:value,Name:value`."""
    pairs = parse_pairs(value) if isinstance(value, str) else value
    if not isinstance(pairs, Mapping):
        raise ValueError("must be a map of header names to values")
    seen: set[str] = set()
    for name, content in pairs.items():
        _check_header(header_name(name), content)
        if name.lower() in seen:
            raise ValueError(f"{name} is a duplicate")
        seen.add(name.lower())
    return dict(pairs)


def _check_header(name: str, content: Any) -> None:
    if name.lower() in CONNECTION_HEADERS:
        raise ValueError(f"{name} is a hop-by-hop header and cannot be set")
    if not isinstance(content, str):
        raise ValueError(f"the value of {name} must be text. Put it in quotes")
    if content.endswith("\n") and _VALUE.fullmatch(content.rstrip("\n")):
        raise ValueError(f"the value of {name} {control_characters(content)}")
    if not _VALUE.fullmatch(content):
        raise ValueError(f"the value of {name} must be Latin-1 text without control characters")


def response_headers(value: Any) -> Mapping[str, str]:
    """Parse a header map as `header_map` does; `disable: true` means none."""
    pairs = parse_pairs(value) if isinstance(value, str) else value
    if not isinstance(pairs, Mapping) or "disable" not in pairs:
        return header_map(pairs)
    try:
        disabled = boolean(pairs["disable"])
    except ValueError:
        raise ValueError("disable must be true or false") from None
    others = header_map({name: content for name, content in pairs.items() if name != "disable"})
    return {} if disabled else others


def request_headers(value: Any) -> Mapping[str, str]:
    headers = header_map(value)
    for name, content in headers.items():
        if fold_name(name).startswith("x-gate-"):
            raise ValueError(f"{name} is an identity header set by gate and cannot be overridden")
        try:
            template(content)
        except ValueError as error:
            raise ValueError(f"the value of {name}: {error}") from None
    return headers


def removable_request_headers(value: Any) -> tuple[str, ...]:
    names = tuple(header_name(name) for name in text_list(value))
    for name in names:
        if name.lower() in ("host", "content-length", "transfer-encoding"):
            raise ValueError(f"{name} is needed for a valid request and can't be removed")
    return names


def route_response_headers(value: Any) -> Mapping[str, str]:
    """Parse the response headers of a route."""
    headers = header_map(value)
    for name in headers:
        if name.lower() in _FORBIDDEN_RESPONSE_HEADERS:
            raise ValueError(f"{name} can't be set: {_FORBIDDEN_RESPONSE_HEADERS[name.lower()]}")
    return headers


def removable_response_headers(value: Any) -> tuple[str, ...]:
    names = tuple(header_name(name) for name in text_list(value))
    for name in names:
        if name.lower() in CONNECTION_HEADERS:
            raise ValueError(f"{name} is a hop-by-hop header and cannot be removed")
    return names


def claim_names(value: Any) -> tuple[str, ...]:
    names = text_list(value)
    for name in names:
        if not is_token(name.replace("\\.", ".")):  # a dotted claim path may contain an escaped dot
            raise ValueError(f"{name!a} can't be a part of the header name X-Gate-Claim-{{Name}}")
    return names


HEADER_MAP: JsonSchema = {"anyOf": [{"type": "object", "additionalProperties": {"type": "string"}}, {"type": "string"}]}
RESPONSE_HEADERS: JsonSchema = {
    "anyOf": [{"type": "object", "properties": {"disable": BOOL}, "additionalProperties": {"type": "string"}}, {"type": "string"}]
}

ResponseHeaders = Annotated[Mapping[str, str], FieldType("map string-to-string", response_headers, RESPONSE_HEADERS)]
RequestHeaders = Annotated[Mapping[str, str], FieldType("map string-to-string", request_headers, HEADER_MAP)]
RouteResponseHeaders = Annotated[Mapping[str, str], FieldType("map string-to-string", route_response_headers, HEADER_MAP)]
RemovableResponseHeaders = Annotated[tuple[str, ...], FieldType("list of string", removable_response_headers, LIST)]
RemovableRequestHeaders = Annotated[tuple[str, ...], FieldType("list of string", removable_request_headers, LIST)]
ClaimNames = Annotated[tuple[str, ...], FieldType("list of string", claim_names, LIST)]
