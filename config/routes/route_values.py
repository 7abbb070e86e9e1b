"""Values of route keys: address, paths, and access lists."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator

from config.fields.basic_types import PositiveDuration, TextList, text, text_list
from config.fields.field_type import LIST, PATH, FieldType, JsonSchema
from foundation.values import Url, parse_url

_MAX_CLAIM_DEPTH = 32
FROM_URL: JsonSchema = {"type": "string", "pattern": r"^([Hh][Tt][Tt][Pp][Ss]|[Tt][Cc][Pp]\+[Hh][Tt][Tt][Pp][Ss])://[^/?#]+/?$"}


def from_url(value: Any) -> Url:
    return value if isinstance(value, Url) else _from_url(text(value))


@lru_cache(maxsize=1024)  # routes of one host are usually adjacent
def _from_url(written: str) -> Url:
    parsed = parse_url(written, wildcard=True)
    if parsed.scheme not in ("https", "tcp+https"):
        raise ValueError("the scheme must be https or tcp+https")
    if parsed.path not in ("", "/"):
        raise ValueError(f"config: policy source url ({parsed}) contains a path, but it should be set using the path field instead")
    if parsed.query:
        raise ValueError("must not contain a query")
    return Url(parsed.scheme, parsed.host, parsed.port)


def absolute_path(value: Any) -> str:
    path = text(value)
    if not path.startswith("/"):
        raise ValueError("must start with /")
    return path


def rewritten_path(value: Any) -> str:
    """Parse a path for request lines and Location: plain ASCII, without a query."""
    path = location_path(value)
    if "?" in path:
        raise ValueError("must be a path without a query")
    return path


def location_path(value: Any) -> str:
    """Parse a path for Location, with an optional query."""
    path = absolute_path(value)
    parse_url(f"https://host{path}")
    return path


def flattened_claims(value: Any) -> Mapping[str, tuple[Any, ...]]:
    """Flatten nested maps to dotted keys, and scalars to lists of one element."""
    if not isinstance(value, Mapping):
        raise ValueError("must be a map of claims to lists of values")
    flat: dict[str, tuple[Any, ...]] = {}
    for key, values in _claims(value, "", _MAX_CLAIM_DEPTH):
        flat[key] = flat.get(key, ()) + values
    return flat


def _claims(value: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    if depth == 0:
        raise ValueError("is nested too deeply")
    for key, content in value.items():
        if isinstance(content, Mapping):
            yield from _claims(content, f"{prefix}{key}.", depth - 1)
            continue
        values = content if isinstance(content, list | tuple) else [content]
        if not all(isinstance(element, str | int | float) and element != "" for element in values):
            raise ValueError(f"the values of {prefix + str(key)!a} must be text, numbers or true and false")
        yield f"{prefix}{key}", tuple(values)


def domains(value: Any) -> tuple[str, ...]:
    for element in (elements := text_list(value)):
        if "@" in element:
            raise ValueError(f"{element!a} contains an @. Write the domain only, as in example.com")
    return elements


def origins(value: Any) -> tuple[str, ...]:
    return tuple(_origin(element) for element in text_list(value))


# Pages with these schemes send `Origin: null`; ws and wss are not schemes of pages.
_SCHEMES_WITHOUT_ORIGIN = ("file", "data", "blob", "about", "javascript", "ws", "wss")


def _origin(written: str) -> str:
    if written.lower() == "null" or written.lower().startswith("file:"):
        raise ValueError(
            f"{written!a} can't be allowed: every local file (`file://`) and every sandboxed "
            "frame (`null`) sends it. Serve the page from its own origin"
        )
    if "*" in written:
        raise ValueError(f"{written!a} contains a wildcard, which origins can't have. List each origin")
    parsed = parse_url(written)
    if parsed.scheme in _SCHEMES_WITHOUT_ORIGIN or parsed.path or parsed.query:
        raise ValueError(
            f"{written!a} is not an origin as browsers send it. Write the scheme and the host without a path: "
            "https://app.example.com, capacitor://localhost"
        )
    return parsed.origin


# The value becomes part of a query parameter, separated by spaces, and of a quoted string in WWW-Authenticate (RFC 9470).
_ACR = re.compile(r"[!#-\[\]-~]{1,255}")


def acr_values(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not _ACR.fullmatch(value):
            raise ValueError(f"{value!a} must be plain text without spaces, quotes and backslashes, as the provider names it")
    return values


def max_age(age: timedelta) -> timedelta:
    if age < timedelta(minutes=1):
        raise ValueError("must be at least 1m, the time that a sign-in takes")
    return age


FromUrl = Annotated[Url, FieldType("URL", from_url, FROM_URL)]
AbsolutePath = Annotated[str, FieldType("string", absolute_path, PATH)]
RewrittenPath = Annotated[str, FieldType("string", rewritten_path, PATH)]
Claims = Annotated[Mapping[str, tuple[Any, ...]], FieldType("map string to list of string", flattened_claims, {"type": "object"})]
Domains = Annotated[tuple[str, ...], FieldType("list of string", domains, LIST)]
AcrValues = Annotated[TextList, AfterValidator(acr_values)]
MaxAge = Annotated[PositiveDuration, AfterValidator(max_age)]
Origins = Annotated[tuple[str, ...], FieldType("list of string", origins, LIST)]
