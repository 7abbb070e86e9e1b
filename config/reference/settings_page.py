"""Generator of the reference pages of settings and route keys (docs/reference/settings.md, docs/reference/route.md)."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import yaml

from config.reference.setting_catalog import FILE_ONLY, SettingKey, declared_keys, nested_models, route_keys_by_topic, settings_by_topic

_GENERATED = "This page is generated from the declarations in `config/` by `make docs`; do not edit it."
_SETTINGS = f"""# Settings

{_GENERATED}

gate reads each setting from its environment variable, else from the configuration file, else uses the default. An empty variable
or key counts as unset. The file is YAML, JSON, TOML or properties, by its extension. For completion in an editor, begin a YAML file
with `# yaml-language-server: $schema=<path of docs/reference/config.schema.json>`.

The variable is the name in capitals, as in `COOKIE_EXPIRE`. A changed value takes effect on reload, when the file changes and on
SIGHUP; settings with *Applied: restart* need a restart. A setting without a default is unset.

| Type | Written as |
|---|---|
| bool | `true` or `false`; also `1`, `t`, `yes`, `on` and `0`, `f`, `no`, `off` |
| duration | decimal numbers with units: `300ms`, `30s`, `5m`, `1h45m`; `0` needs no unit |
| list | a list, or one text with commas between the elements |
| map | a map, one text `Name:value,Name:value`, or a JSON object |
| base64 string | base64 on one line |
| file path | relative paths start at the directory of the configuration file |
| host:port | `:443`, `127.0.0.1:8080`, `[::1]:8080` |
"""
_ROUTES = f"""# Route keys

{_GENERATED}

Each entry of `policy` is a route. The first route that matches a request applies. Changes take effect on reload. A key without a
default is unset. [Settings](settings.md) describes the types.
"""


def settings_page(needs_restart: Collection[str]) -> str:
    """Return the page of settings. Changes of `needs_restart` take effect at the next start."""
    return _page(_SETTINGS, settings_by_topic(), needs_restart)


def route_page() -> str:
    return _page(_ROUTES, route_keys_by_topic(), None)


def _page(head: str, topics: Mapping[str, Iterable[SettingKey]], needs_restart: Collection[str] | None) -> str:
    lines = [head]
    for topic, of_topic in topics.items():
        lines += [f"## {topic}", ""]
        for key in of_topic:
            lines += _section(key, needs_restart)
    return "\n".join(lines).rstrip() + "\n"


def _section(key: SettingKey, needs_restart: Collection[str] | None) -> Iterator[str]:
    facts = [f"Type: {_kind(key)}"]
    if default := _default(key):
        facts.append(f"Default: {default}")
    if needs_restart is not None and key.name in FILE_ONLY:
        facts.append("Configuration file only")
    if key.name in (needs_restart or ()):
        facts.append("Applied: restart")
    yield f"### `{key.name}`"
    yield ""
    yield str(key.field.description)
    yield ""
    yield " · ".join(facts)
    yield ""
    if key.name != "policy" or needs_restart is None:  # routes have a separate page
        yield "```yaml"
        yield yaml.safe_dump({key.name: _example(key)}, sort_keys=False, width=1000).rstrip()
        yield "```"
        yield ""
    for parent, model in nested_models([key]):
        yield f"| Key of {'each entry of ' if parent.is_list_of_models else ''}`{parent.name}` | Type | Default | Description | Example |"
        yield "|---|---|---|---|---|"
        for inner in declared_keys(model):
            cells = (f"`{inner.name}`", _kind(inner), _default(inner), str(inner.field.description), _code(_example(inner)))
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        yield ""


def _kind(key: SettingKey) -> str:
    """Return the type and the accepted values. A value that is accepted as text and as number is listed once."""
    choices = dict.fromkeys(str(choice) for choice in key.field_type.schema.get("enum", ())) if key.field_type else {}
    return f"one of {', '.join(f'`{choice}`' for choice in choices)}" if choices else key.type_name


def _default(key: SettingKey) -> str:
    if key.is_required:
        return "required"
    if key.when_unset is not None:
        return key.when_unset
    return "" if key.default in (None, [], {}, "") else _code(key.default)


def _example(key: SettingKey) -> Any:
    return (key.field.examples or [None])[0]


def _code(value: Any) -> str:
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"
