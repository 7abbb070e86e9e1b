"""Header names and values that a configuration may name."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from config.fields.basic_types import boolean, pairs_of, text_list
from config.fields.field_type import BOOL, LIST, SettingReader, Shape, control_characters
from config.fields.header_template import template

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 5.6.2
_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")  # no control characters: neither C0 nor C1 (0x85 is a line end to some)

# RFC 9110 7.6.1 and what frames a message: set by the connection, never by a configuration.
CONNECTION_HEADERS = frozenset(
    {"connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)


# Of which an answer may have several, or which tell what nobody but gate knows.
_NOT_OF_ANSWERS = {
    "set-cookie": "cookies belong to the application",
    "alt-svc": "use the setting http3",
}


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def folded(name: str) -> str:
    """Folded name, in which servers that map headers to variables can't tell two names apart."""
    return name.lower().replace("_", "-").replace(".", "-")


def header_name(value: Any) -> str:
    if not isinstance(value, str) or not is_token(value):
        raise ValueError("invalid header name: use letters, digits and hyphens (RFC 9110 5.6.2)")
    return value


def header_map(value: Any) -> Mapping[str, str]:
    """Header map: a map, a JSON object as text, or `Name:value,Name:value`."""
    pairs = pairs_of(value) if isinstance(value, str) else value
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
    """Header map as of `header_map`; `disable: true` switches all of them off."""
    pairs = pairs_of(value) if isinstance(value, str) else value
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
        if folded(name).startswith("x-gate-"):
            raise ValueError(f"{name} is an identity header set by gate and cannot be overridden")
        try:
            template(content)
        except ValueError as error:
            raise ValueError(f"the value of {name}: {error}") from None
    return headers


def removable_headers(value: Any) -> tuple[str, ...]:
    names = tuple(header_name(name) for name in text_list(value))
    for name in names:
        if name.lower() in ("host", "content-length", "transfer-encoding"):
            raise ValueError(f"{name} is needed for a valid request and can't be removed")
    return names


def answer_headers(value: Any) -> Mapping[str, str]:
    """Header map of a route's answers."""
    headers = header_map(value)
    for name in headers:
        if name.lower() in _NOT_OF_ANSWERS:
            raise ValueError(f"{name} can't be set: {_NOT_OF_ANSWERS[name.lower()]}")
    return headers


def removable_answer_headers(value: Any) -> tuple[str, ...]:
    names = tuple(header_name(name) for name in text_list(value))
    for name in names:
        if name.lower() in CONNECTION_HEADERS:
            raise ValueError(f"{name} is a hop-by-hop header and cannot be removed")
    return names


def claim_names(value: Any) -> tuple[str, ...]:
    names = text_list(value)
    for name in names:
        if not is_token(name.replace("\\.", ".")):  # as a dotted path has the dot of a name
            raise ValueError(f"{name!a} can't be a part of the header name X-Gate-Claim-{{Name}}")
    return names


HEADER_MAP: Shape = {"anyOf": [{"type": "object", "additionalProperties": {"type": "string"}}, {"type": "string"}]}
RESPONSE_HEADERS: Shape = {
    "anyOf": [{"type": "object", "properties": {"disable": BOOL}, "additionalProperties": {"type": "string"}}, {"type": "string"}]
}

ResponseHeaders = Annotated[Mapping[str, str], SettingReader("map string-to-string", response_headers, RESPONSE_HEADERS)]
RequestHeaders = Annotated[Mapping[str, str], SettingReader("map string-to-string", request_headers, HEADER_MAP)]
AnswerHeaders = Annotated[Mapping[str, str], SettingReader("map string-to-string", answer_headers, HEADER_MAP)]
RemovableAnswerHeaders = Annotated[tuple[str, ...], SettingReader("list of string", removable_answer_headers, LIST)]
RemovableHeaders = Annotated[tuple[str, ...], SettingReader("list of string", removable_headers, LIST)]
ClaimNames = Annotated[tuple[str, ...], SettingReader("list of string", claim_names, LIST)]
