"""Settings page, docs/settings.md, out of the declarations of the settings."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from config.reference.all_settings import FILE_ONLY, SettingKey, keys, nested, route_keys, settings

_HEAD = """# Settings

This page is made from the declarations in `config/` by `make docs`; don't edit it.

A setting comes from an environment variable, else from the configuration file, else it has its default; both sources may be mixed.
An empty variable is unset, and so is a key with nothing behind it. The file is YAML, JSON, TOML or properties, told by its extension
(`.yaml`, `.yml`, `.json`, `.toml`, `.properties`). Editors complete and check YAML with the line
`# yaml-language-server: $schema=<path of docs/config.schema.json>` at its top.

| Type | Written as |
|---|---|
| bool | `true` or `false`; also `1`, `t`, `yes`, `on` and `0`, `f`, `no`, `off` |
| duration | decimal numbers with units: `300ms`, `30s`, `5m`, `1h45m`; `0` needs no unit |
| list | a list, or one text with commas between the elements |
| map | a map; as one text `Name:value,Name:value` or a JSON object |
| base64 string | base64 on one line |
| file path | relative paths start at the directory of the configuration file |
| host:port | `:443`, `127.0.0.1:8080`, `[::1]:8080` |
"""


def settings_page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    for title, group in settings().items():
        yield from _table(title, group, environment=True)
        yield from _tables_of_objects(group)
    yield "Each route is an object in the list `policy`. The first that matches decides."
    yield ""
    yield from _table("Keys of a route", route_keys())
    yield from _tables_of_objects(route_keys())


def _tables_of_objects(group: Iterable[SettingKey]) -> Iterator[str]:
    for key, model in nested(group):
        yield from _table(f"Keys of an object in `{key.name}`" if key.is_list_of_models else f"Keys of `{key.name}`", keys(model))


def _table(title: str, group: Sequence[SettingKey], *, environment: bool = False) -> Iterator[str]:
    if not group:
        return
    yield f"## {title}"
    yield ""
    yield "| Key |" + (" Environment variable |" if environment else "") + " Type | Default | Meaning | Example |"
    yield "|---|" + ("---|" if environment else "") + "---|---|---|---|"
    for key in group:
        name = "file only" if key.name in FILE_ONLY else f"`{key.name.upper()}`"
        cells = [
            f"`{key.name}`",
            *([name] if environment else []),
            key.kind,
            _default(key),
            _meaning(key),
            _code((key.field.examples or [""])[0]),
        ]
        yield "| " + " | ".join(cells) + " |"
    yield ""


def _default(key: SettingKey) -> str:
    if key.is_required:
        return "required"
    if key.when_unset is not None:
        return key.when_unset
    return "" if key.default in (None, [], {}, "") else _code(key.default)


def _meaning(key: SettingKey) -> str:
    meaning = str(key.field.description).replace("|", "\\|")
    choices = key.reader.shape.get("enum", ()) if key.reader else ()
    if choices:
        meaning += f" One of {', '.join(_code(choice) for choice in choices)}."
    return meaning


def _code(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{text}`".replace("|", "\\|")
