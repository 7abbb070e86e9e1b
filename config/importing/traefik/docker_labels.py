"""Traefik's labels in a Docker Compose file: routers, services and middlewares, with their options by dotted name."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from config.fields.setting_files import MAX_CONFIG_BYTES, read_capped
from config.importing.conversion import ForeignKey
from config.importing.foreign_file import ForeignConfig

_VARIABLE = re.compile(r"\$\$|\$\{(\w+)(?::?-([^}]*))?\}|\$([A-Za-z_]\w*)")
_LABEL = re.compile(r"traefik\.http\.(routers|services|middlewares)\.([^.]+)\.(.+)", re.IGNORECASE)


@dataclass(slots=True)
class TraefikObject:
    """Router, service or middleware. `container` is the Compose service with its labels."""

    name: str
    container: str
    source: ForeignKey
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TraefikLabels:
    """Labels of all enabled containers, by kind and name."""

    routers: dict[str, TraefikObject]
    services: dict[str, TraefikObject]
    middlewares: dict[str, TraefikObject]


def read_labels(foreign: ForeignConfig) -> TraefikLabels:
    found: dict[str, dict[str, TraefikObject]] = {"routers": {}, "services": {}, "middlewares": {}}
    variables = _variables(foreign.base / ".env")
    for container, raw in foreign.values["services"].items():
        labels = list(_labels(foreign, container, raw if isinstance(raw, dict) else {}))
        if any(name.lower() == "traefik.enable" and value.lower() == "false" for name, value, _ in labels):
            continue
        for name, value, source in labels:
            match = _LABEL.fullmatch(name)
            if match is None:
                continue
            part = found[match[1].lower()].setdefault(match[2], TraefikObject(match[2], container, source))
            part.options[match[3].lower()] = _interpolate(value, variables)
    return TraefikLabels(found["routers"], found["services"], found["middlewares"])


def _labels(foreign: ForeignConfig, container: str, raw: dict[str, Any]) -> Iterator[tuple[str, str, ForeignKey]]:
    for path in (("labels",), ("deploy", "labels")):
        value: Any = raw
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        pairs: list[Any] = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
        for key, content in pairs:
            label, _, text = str(content).partition("=") if isinstance(key, int) else (key, "", _text(content))
            yield label.strip(), text.strip(), foreign.source("services", container, *path, key)


def _variables(file: Path) -> dict[str, str]:
    """Return the variables of the file `.env` in the directory of the Compose file, if it exists."""
    try:
        lines = read_capped(file, MAX_CONFIG_BYTES).decode("utf-8", "replace").splitlines()
    except ValueError:
        return {}
    pairs = (line.strip().removeprefix("export ").partition("=") for line in lines if not line.lstrip().startswith("#"))
    return {name.strip(): value.strip().strip("'\"") for name, sign, value in pairs if sign}


def _interpolate(text: str, variables: dict[str, str]) -> str:
    """Replace variables; unknown ones are kept. `$$` is a dollar sign."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        return "$" if name is None else variables.get(name) or match[2] or match[0]

    return _VARIABLE.sub(value, text)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
