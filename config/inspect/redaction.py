"""Redaction of configuration values for pages. Every page uses `redact`, which hides types that it does not know."""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from config.inspect.policy_text import describe_block, describe_expression
from config.inspect.source_map import DEFAULT, SourceMap
from config.options import Options
from config.reference.setting_catalog import SettingKey, format_duration, route_keys, settings_by_topic
from config.routes.policy.policy_language import Block, Combination, Comparison
from config.routes.policy.policy_tests import PolicyTest, PresentedCertificate
from config.routes.route import Route
from config.routes.upstreams.upstream_urls import WeightedUrl
from config.settings.storage_url import DatabaseUrl, StorageUrl
from config.validation import Settings
from foundation.values import HostPort, SecretBytes, SecretText, Url, WatchedFile

HIDDEN = "(set, not shown)"
MAX_VALUE_LENGTH = 2_000  # characters of one value
_MAX_ELEMENTS = MAX_VALUE_LENGTH // 3  # elements; with their separators, more would be truncated anyway
_WIDE = 100
# Header values may contain keys: show the names only.
_NAMES_ONLY = frozenset({(Route, "set_request_headers"), (PolicyTest, "headers")})
_QUERY = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^?#]*)\?.*", re.DOTALL)
_DESCRIBED = (StorageUrl, DatabaseUrl, PresentedCertificate)
_AS_TEXT = (HostPort, Path, ipaddress.IPv4Network, ipaddress.IPv6Network)


@dataclass(frozen=True, slots=True)
class DisplayedValue:
    """Effective value as redacted text. `location` is the source location, or DEFAULT."""

    key: str
    value: str
    location: str

    @property
    def is_default(self) -> bool:
        return self.location == DEFAULT


def effective_settings(options: Options, places: SourceMap) -> Iterator[tuple[str, list[DisplayedValue]]]:
    """Yield each topic with its settings, without the routes."""
    for title, group in settings_by_topic().items():
        found = [_setting(options, key, places) for key in group if key.name != "policy"]
        if found:
            yield title, found


def _setting(options: Options, key: SettingKey, places: SourceMap) -> DisplayedValue:
    value, place = display_value(options, key), places.setting_location(key.name)
    unset = f"({key.when_unset.replace('`', '')})" if key.when_unset and place == DEFAULT and not value else ""
    return DisplayedValue(key.name, value or unset, place)


def effective_route(route: Route, index: int, places: SourceMap) -> list[DisplayedValue]:
    """Return the keys that the route sets."""
    return [
        DisplayedValue(key.name, display_value(route, key), places.route_location(index, key.name))
        for key in route_keys()
        if is_set(route, key)
    ]


def is_set(owner: Settings, key: SettingKey) -> bool:
    return type(owner).attributes()[key.name] in owner.model_fields_set


def display_value(owner: Settings, key: SettingKey) -> str:
    return redact(_read_value(owner, key.name))


def _read_value(owner: Settings, key: str) -> Any:
    """Return the value of a key; for headers, the names only."""
    value = getattr(owner, type(owner).attributes()[key])
    return list(value) if (type(owner), key) in _NAMES_ONLY else value


# enforcement-point: Pages: Redaction of configuration values
def redact(value: Any) -> str:
    """Return the value in its configuration form, without secrets; "" if it is unset."""
    plain = _plain(value)
    if isinstance(plain, bool):
        text = "true" if plain else "false"
    elif isinstance(plain, list | dict):
        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, default_flow_style=None, width=_WIDE).strip() if plain else ""
    else:
        text = "" if plain is None else str(plain)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}… (truncated)"


def is_secret(value: Any) -> bool:
    """Return whether the value has a secret type."""
    return isinstance(value, SecretText | SecretBytes)


def _plain(value: Any) -> Any:
    """Convert a value to text, numbers, lists and maps."""
    if is_secret(value):
        return HIDDEN
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return _QUERY.sub(r"\1?…", value)
        case bytes():
            return f"({len(value):,} bytes)"
        case timedelta():
            return format_duration(value)
        case Decimal():
            return float(value)
        case Url():
            return _plain(str(value))
        case WeightedUrl():
            return _plain(str(value.url)) if value.weight == 1 else f"{_plain(str(value.url))},{value.weight}"
        case WatchedFile():
            return str(value.path)
        case Block():
            return describe_block(value)
        case Combination() | Comparison():
            return describe_expression(value)
        case Settings():
            return dict(_set_values(value))
        case Mapping():
            return {str(name): _plain(content) for name, content in islice(value.items(), _MAX_ELEMENTS)}
        case list() | tuple() | frozenset():
            return _counted([_plain(each) for each in islice(value, _MAX_ELEMENTS)])
    if isinstance(value, _AS_TEXT):
        return str(value)
    if isinstance(value, _DESCRIBED) and is_dataclass(value):
        found = ((each.name, getattr(value, each.name)) for each in fields(value))
        return {name: _plain(content) for name, content in found if content not in (None, "", ())}
    return HIDDEN


def _counted(found: list[Any]) -> Any:
    """Replace a list of secrets by their number."""
    if not found or any(each != HIDDEN for each in found):
        return found
    return HIDDEN if len(found) == 1 else f"({len(found)} set, not shown)"


def _set_values(value: Settings) -> Iterator[tuple[str, Any]]:
    for key, attribute in type(value).attributes().items():
        if attribute in value.model_fields_set:
            yield key, _plain(_read_value(value, key))
