"""Upstream URLs of a route (`to`): one or several, each with an optional weight: `http://a.internal:8000,3`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from config.fields.basic_types import text
from config.fields.field_type import FieldType, JsonSchema
from foundation.values import Url, parse_url

SCHEMES = ("http", "https", "tcp")
_MAX_TOTAL_WEIGHT = 2**32 - 1  # of all URLs together, Envoy's limit
_NUMBER = re.compile(r"\s*[-+]?[0-9.]+\s*")

_SCHEMA: JsonSchema = {"type": "string", "pattern": r"^\s*([Hh][Tt][Tt][Pp][Ss]?|[Tt][Cc][Pp])://[^/?#]"}
_LIST_SCHEMA: JsonSchema = {"type": "array", "minItems": 1, "items": {"anyOf": [_SCHEMA, {"type": "array"}]}}


@dataclass(frozen=True, slots=True)
class WeightedUrl:
    """URL with its `weight`, relative to the other URLs of the route."""

    url: Url
    weight: int = 1

    def __str__(self) -> str:
        return str(self.url) if self.weight == 1 else f"{self.url},{self.weight}"


def upstream_urls(value: Any) -> tuple[WeightedUrl, ...]:
    pairs = [_url_and_weight(leaf) for leaf in _flatten(value)]
    if not pairs:
        raise ValueError("must be a URL, or a list of URLs")
    if len({weight is None for _, weight in pairs}) > 1:
        raise ValueError("must have a weight for every URL or for none")
    if sum(weight or 1 for _, weight in pairs) > _MAX_TOTAL_WEIGHT:
        raise ValueError(f"has weights whose sum exceeds {_MAX_TOTAL_WEIGHT}")
    if len({url.path for url, _ in pairs}) > 1:
        raise ValueError("must have the same path in each URL")
    return tuple(WeightedUrl(url, weight or 1) for url, weight in pairs)


def _flatten(value: Any) -> Iterator[str]:
    """Flatten nested lists in order, so that a list may contain lists."""
    if isinstance(value, list | tuple):
        for element in value:
            yield from _flatten(element)
    else:
        yield text(value)


def _url_and_weight(written: str) -> tuple[Url, int | None]:
    address, comma, weight = written.strip().rpartition(",")
    if not comma or not _NUMBER.fullmatch(weight):
        return _upstream_url(written.strip()), None
    if not re.fullmatch(r"\s*[0-9]{1,10}\s*", weight) or int(weight) == 0:
        raise ValueError("a weight must be a whole number from 1")
    return _upstream_url(address), int(weight)


def _upstream_url(written: str) -> Url:
    parsed = parse_url(written, underscore=True)
    if parsed.scheme not in SCHEMES:
        raise ValueError("the scheme must be http or https, or tcp for tcp+https")
    if parsed.query:
        raise ValueError("must not contain a query")
    if parsed.scheme == "tcp" and (parsed.port is None or parsed.path not in ("", "/")):
        raise ValueError("must be tcp://host:port on a TCP route")
    return parsed


UpstreamUrls = Annotated[tuple[WeightedUrl, ...], FieldType("URL or list of URLs", upstream_urls, {"anyOf": [_SCHEMA, _LIST_SCHEMA]})]
