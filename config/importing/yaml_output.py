"""Writer of a conversion as YAML, with its notes as comments."""

from collections.abc import Iterator
from typing import Any

import yaml

from config.importing.conversion import Conversion, ConvertedEntry, ConvertedSection

_WIDTH = 150


class _Dumper(yaml.SafeDumper):
    """Dumper that writes repeated values in full, without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def render_yaml(converted: Conversion, file: str) -> str:
    """Return the YAML text. `file` is named in its first comment."""
    lines = list(_head(converted, file))
    lines += _part(converted.top, "")
    lines += ["", "policy:" if converted.routes else "policy: []"]
    for route in converted.routes:
        lines += _route(route)
    if converted.tests:
        lines += [
            "",
            *_comment("What the original allowed and denied; gate check reports where a change differs from it."),
            "policy_tests:",
        ]
        lines += [f"  - {_render_flow(test)}" for test in converted.tests]
    return "\n".join(lines) + "\n"


def _head(converted: Conversion, file: str) -> Iterator[str]:
    yield from _comment(f"Generated from {file}, a configuration of {converted.product}.")
    yield from _comment(f"LOST marks settings that could not be converted ({converted.lost}),")
    yield from _comment(f"CHECK marks settings that changed in the conversion ({converted.to_check}), NEW marks added ones.")
    yield from _comment("This file contains the secrets of the original. Check it with: gate check --config THIS-FILE")
    yield ""


def _route(route: ConvertedSection) -> Iterator[str]:
    before = True  # a comment cannot be between the dash and the first key
    for entry in route.entries:
        lines = list(_entry(entry, "" if before and entry.key else "    "))
        if before and entry.key:
            first = next(index for index, line in enumerate(lines) if not line.startswith("#"))
            lines = [f"  {line}" for line in lines[:first]] + [f"  - {lines[first]}"] + [f"    {line}" for line in lines[first + 1 :]]
            before = False
        elif before:
            lines = [f"  {line.strip()}" for line in lines]
        yield from lines


def _part(part: ConvertedSection, indent: str) -> Iterator[str]:
    for entry in part.entries:
        yield from _entry(entry, indent)


def _entry(entry: ConvertedEntry, indent: str) -> Iterator[str]:
    for note in entry.notes:
        yield from _comment(f"{note.mark} {note.text}", indent)
    if entry.key:
        yield from (indent + line for line in _render_value(entry.key, entry.value))


def _render_value(key: str, value: Any) -> list[str]:
    if isinstance(value, dict | list):
        return _dumped({key: value})
    return [f"{key}: {_dumped([value])[0][1:-1]}"]  # dumping a list of one element yields the scalar on one line, quoted as needed


def _dumped(value: Any) -> list[str]:
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=10**6)
    return text.rstrip("\n").split("\n")


def _render_flow(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=True, width=10**6).rstrip("\n")


def _comment(text: str, indent: str = "") -> Iterator[str]:
    """Yield comment lines. Text from the file is sanitized, because a line break in it must not end the comment."""
    lines = "".join(character if character.isprintable() else "?" for character in text).split(" ")
    line = ""
    for word in lines:
        if line and len(indent) + len(line) + len(word) > _WIDTH:
            yield f"{indent}# {line}"
            line = "  " + word
        else:
            line = f"{line} {word}" if line else word
    yield f"{indent}# {line}"
