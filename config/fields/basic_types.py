"""Basic types of settings, and the functions that parse their configuration form.

Each parser raises ValueError, without the value if that may be secret.

To declare a setting, add a field to its group in `config/settings` or to Route, with a type from below: `refresh_cooldown: Duration =
Field(timedelta(minutes=5), description="Minimum time between ...", examples=["5m"])`. The attribute is the key in the file, and in upper
case the environment variable. A new type is `Annotated[type, FieldType(name, function, schema)]`. tests/repo/test_settings.py reports
incomplete declarations. `json_schema_extra={"when_unset": "...", "when_missing": "..."}` describes a computed default, and the hint for a
missing required key.
"""

import base64
import binascii
import ipaddress
import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, WrapValidator

from config.fields.field_type import (
    BASE64,
    BOOL,
    DURATION,
    HOST_PORT,
    LIST,
    MAP,
    POSITIVE_DURATION,
    TEXT,
    URL,
    WEB_URL,
    FieldType,
    JsonSchema,
    control_characters,
)
from foundation.values import HostPort, SecretBytes, SecretText, Url, WatchedFile, canonical_host, parse_url

KEY_GENERATION_HINT = "generate one with `head -c32 /dev/urandom | base64`"
_TRUE = frozenset({"1", "t", "true", "y", "yes", "on"})
_FALSE = frozenset({"0", "f", "false", "n", "no", "off"})
_UNIT_NANOSECONDS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_PARTS = re.compile(f"(?:{_PART.pattern})+")
_NO_DURATION = "must be a duration with units, as in 30s, 5m or 1h45m"
_ADDRESS = re.compile(r"(.*):([0-9]{1,5})")  # port 0: any free port
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{0,18})?(?:e-[0-9]{1,2})?")
_KEY: JsonSchema = {"type": "string", "minLength": 43, "pattern": r"^[A-Za-z0-9+/=]+( *, *[A-Za-z0-9+/=]+)*$"}
KEY_RING: JsonSchema = {"anyOf": [_KEY, {"type": "array", "minItems": 1, "items": _KEY}]}
_PEM_AS_BASE64 = base64.b64encode(b"-----BEGIN ").decode()[:14]
_MAX_DURATION = timedelta(days=36500)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text. Put it in quotes")
    if not value.strip():
        raise ValueError("must not be empty")
    if _CONTROL.search(value):
        raise ValueError(control_characters(value))
    return value


def boolean(value: Any) -> bool:
    word = str(value).lower() if isinstance(value, bool | int | str) else ""
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("must be true or false")


def duration(value: Any) -> timedelta:
    """Parse a duration in Go's notation: `1h45m`, `300ms`, `1.5s`; `0` needs no unit."""
    if isinstance(value, timedelta):
        return value
    if value in ("0", 0) and not isinstance(value, bool):
        return timedelta(0)
    if not isinstance(value, str) or len(value) > 64:
        raise ValueError(_NO_DURATION)
    return _parse_units(value)


@lru_cache(maxsize=256)  # thousands of routes share a few values
def _parse_units(value: str) -> timedelta:
    if not _PARTS.fullmatch(value):
        raise ValueError(_NO_DURATION)
    nanoseconds = sum(Decimal(number) * _UNIT_NANOSECONDS[unit] for number, unit in _PART.findall(value))
    if 0 < nanoseconds < 1000:  # would round to 0, which disables the limit
        raise ValueError("must be 0 or at least one microsecond")
    if nanoseconds > int(_MAX_DURATION.total_seconds()) * 10**9:
        raise ValueError("must not be longer than 100 years")
    return timedelta(microseconds=int(nanoseconds // 1000))


def positive_duration(value: Any) -> timedelta:
    if not (length := duration(value)):
        raise ValueError("must be longer than 0")
    return length


def text_list(value: Any) -> tuple[str, ...]:
    """Parse a list, or one comma-separated text. An empty element is an error, because it would match an empty claim."""
    elements = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(elements, list | tuple):
        raise ValueError("must be a list")
    try:
        return tuple(text(element) for element in elements)
    except ValueError as error:
        raise ValueError(f"each entry {error}") from None


def text_map(value: Any) -> Mapping[str, str]:
    """Parse a map, or one text (in the environment): a JSON object or `name:value,name:value`."""
    pairs = parse_pairs(value) if isinstance(value, str) else value
    if not isinstance(pairs, Mapping):
        raise ValueError("must be a map of names to text")
    if not all(isinstance(name, str) and name.strip() and isinstance(content, str) for name, content in pairs.items()):
        raise ValueError("names and values must be text. Put them in quotes")
    return dict(pairs)


def parse_pairs(written: str) -> dict[str, Any]:
    if written.lstrip().startswith("{"):
        return json_object(written)
    pairs: dict[str, Any] = {}
    for element in written.split(","):
        name, colon, content = element.partition(":")
        if not colon:
            raise ValueError("must be a JSON object, or Name:value pairs with commas between them")
        if name.strip() in pairs:
            raise ValueError("has a duplicate name")
        pairs[name.strip()] = content.strip()
    return pairs


def json_object(written: str) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = json.loads(written, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise ValueError("is not valid JSON, or has a duplicate name") from None
    return parsed


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError
    return dict(pairs)


def number(value: Any) -> Decimal:
    """Parse a finite, non-negative decimal number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str) or not _NUMBER.fullmatch(str(value)):
        raise ValueError("must be a number such as 0.25")
    return Decimal(str(value))


def integer(value: Any) -> int:
    found = number(value)
    if found < 1 or found != found.to_integral_value():
        raise ValueError("must be a whole number, 1 or more")
    return int(found)


def host_port(value: Any) -> HostPort:
    if isinstance(value, HostPort):
        return value
    if value == "":
        return HostPort("", 443)
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match[2]) > 65535:
        raise ValueError("must be host:port, as in :443")
    return HostPort(canonical_host(match[1]).strip("[]") if match[1] else "", int(match[2]))


def base64_bytes(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("must be base64 text")
    if re.search(r"\s", value):
        raise ValueError("contains whitespace")
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise ValueError("is not valid base64") from None


def secret_bytes(value: Any) -> SecretBytes:
    return value if isinstance(value, SecretBytes) else SecretBytes(base64_bytes(value))


def key_of_32_bytes(value: Any) -> SecretBytes:
    try:
        secret = secret_bytes(value)
    except ValueError as error:
        raise ValueError(f"{error}: {KEY_GENERATION_HINT}") from None
    if len(secret) != 32:
        raise ValueError(f"must decode to exactly 32 bytes, not {len(secret)}: {KEY_GENERATION_HINT}")
    return secret


def key_ring(value: Any) -> tuple[SecretBytes, ...]:
    """Parse one key or a list of keys. The first key seals and signs, every key opens and verifies."""
    elements = value.split(",") if isinstance(value, str) else value
    if not isinstance(elements, list | tuple):
        raise ValueError(f"must be base64 text, or a list of it: {KEY_GENERATION_HINT}")
    if not elements:
        raise ValueError(f"must have at least one key: {KEY_GENERATION_HINT}")
    keys = tuple(key_of_32_bytes(element.strip() if isinstance(element, str) and len(elements) > 1 else element) for element in elements)
    if len(set(keys)) != len(keys):
        raise ValueError("has a duplicate key")
    return keys


def url(value: Any) -> Url:
    return value if isinstance(value, Url) else parse_url(text(value))


def origin_only(url: Url) -> Url:
    if url.path not in ("", "/") or url.query:
        raise ValueError("must not have a path or query")
    return Url(url.scheme, url.host, url.port)


def web_url(value: Any) -> Url:
    parsed = url(value)
    if parsed.scheme not in ("http", "https"):
        raise ValueError("the scheme must be https or http")
    return parsed


def network(value: Any) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Parse a network. An IPv4-mapped one becomes IPv4, as do the addresses that are compared with it."""
    try:
        parsed = ipaddress.ip_network(value)
    except ValueError as error:
        raise ValueError(f"must be a network such as 10.0.0.0/8: {error}") from None
    mapped = parsed.network_address.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Network) else None
    return parsed if mapped is None or parsed.prefixlen < 96 else ipaddress.IPv4Network((mapped, parsed.prefixlen - 96))


def networks(value: Any) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(network(element) for element in text_list(value))


def setting_files(info: ValidationInfo) -> Any:
    """Return the files of the validation context.

    This module opens no files itself; callers validate with `context={"files": SettingFiles(...)}`.
    """
    if info.context is None:
        raise ValueError("internal error: file setting validated without a file context")
    return info.context["files"]


def watched_file(value: Any, info: ValidationInfo) -> WatchedFile:
    if isinstance(value, WatchedFile):
        return value
    written = text(value)
    if written.lstrip().startswith((_PEM_AS_BASE64, "-----BEGIN")):  # an error about the path would expose a key
        raise ValueError("expected a file path, found PEM content")
    file: WatchedFile = setting_files(info).read(written)
    return file


def pem_or_file(value: Any, info: ValidationInfo) -> SecretBytes | WatchedFile:
    """Parse base64 of PEM, or the path of a file."""
    if isinstance(value, str) and value.startswith(_PEM_AS_BASE64):
        return secret_bytes(value)
    return value if isinstance(value, SecretBytes) else watched_file(value, info)


def path(value: Any, info: ValidationInfo) -> Path:
    return value if isinstance(value, Path) else Path(setting_files(info).path(text(value)))


def existing_file(value: Any, info: ValidationInfo) -> Path:
    return value if isinstance(value, Path) else Path(setting_files(info).existing(text(value)))


def value_or_file(sibling: str, make: Callable[[bytes], Any] = bytes) -> WrapValidator:
    """Return a validator that accepts the setting's own value or the content of the file that `sibling` names, but not both."""

    def choose(value: Any, handler: Any, info: ValidationInfo) -> Any:
        file = (info.data or {}).get(sibling)
        if file is None:
            return None if value is None else handler(value)
        if value is not None:
            raise ValueError(f"is set together with {sibling}. Set only one of them")
        return make(file.content)

    return WrapValidator(choose)


def file_form(setting: str, example: str, *, has_lines: bool = False) -> Any:
    """Declare the file form of `setting`: one line of text, or with `has_lines` one value per line.

    config/file_forms.py reads it. If the file has another form than the setting (PEM instead of base64), use `value_or_file`.
    """
    description = f"File form of `{setting}`, one a line." if has_lines else f"File form of `{setting}`."
    return Field(None, description=description, examples=[example], json_schema_extra={"file_form_of": setting, "has_lines": has_lines})


def integer_up_to(maximum: int) -> FieldType:
    """Return the type of an integer from 0 to `maximum`; in the environment, an integer is text."""

    def count(value: Any) -> int:
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value[:20])
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= maximum:
            raise ValueError(f"must be a whole number from 0 to {maximum}")
        return value

    shape = {"anyOf": [{"type": "integer", "minimum": 0, "maximum": maximum}, {"type": "string", "pattern": "^[0-9]+$"}]}
    return FieldType("integer", count, shape)


Text = Annotated[str, FieldType("string", text, TEXT)]
Secret = Annotated[SecretText, FieldType("string", lambda value: SecretText(text(value)), TEXT)]
Bool = Annotated[bool, FieldType("bool", boolean, BOOL)]
Number = Annotated[Decimal, FieldType("number", number, {"type": ["number", "string"]})]
Integer = Annotated[int, FieldType("whole number", integer, {"type": ["integer", "string"]})]
Duration = Annotated[timedelta, FieldType("duration", duration, DURATION)]
PositiveDuration = Annotated[timedelta, FieldType("duration", positive_duration, POSITIVE_DURATION)]
TextList = Annotated[tuple[str, ...], FieldType("list of string", text_list, LIST)]
TextMap = Annotated[Mapping[str, str], FieldType("map string-to-string", text_map, MAP)]
Address = Annotated[HostPort, FieldType("host:port", host_port, HOST_PORT)]
Base64 = Annotated[bytes, FieldType("base64 string", base64_bytes, BASE64)]
Base64Secret = Annotated[SecretBytes, FieldType("base64 string", secret_bytes, BASE64)]
KeyRing = Annotated[tuple[SecretBytes, ...], FieldType("base64 string or list", key_ring, KEY_RING)]
AnyUrl = Annotated[Url, FieldType("URL", url, URL)]
WebUrl = Annotated[Url, FieldType("URL", web_url, WEB_URL)]
ServiceUrl = Annotated[WebUrl, AfterValidator(origin_only)]
Networks = Annotated[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...], FieldType("list of CIDR", networks, LIST)]
File = Annotated[WatchedFile, FieldType("file path", watched_file, TEXT)]
PemOrFile = Annotated[SecretBytes | WatchedFile, FieldType("file path or base64 string", pem_or_file, TEXT)]
FilePath = Annotated[Path, FieldType("file path", path, TEXT)]
ExistingFile = Annotated[Path, FieldType("file path", existing_file, TEXT)]
