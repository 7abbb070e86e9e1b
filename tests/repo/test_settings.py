"""Every setting is declared once, documented, as specified, and read by the product."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.lint import LINT_RULES
from config.options import Options
from config.reference.setting_catalog import FILE_ONLY, SettingKey, declared_keys, nested_models, route_keys, settings_by_topic
from config.routes.route import Route
from config.routes.route_redirect import RouteRedirect
from config.settings.common_settings import CertificateFiles
from config.settings.identity_providers import SINGLE_PROVIDER_KEYS
from gateproject.checkout.management.commands.settingsreference import DOCS, files
from tests.support.source_trees import parsed

ROOT = Path(__file__).parents[2]
PACKAGES = ("gateproject", "authenticate", "authorize", "databroker", "proxy", "config", "foundation")
SPECIFICATION = yaml.safe_load((Path(__file__).parent / "specification.yaml").read_text())

ALL_SETTINGS = [key for group in settings_by_topic().values() for key in group]
DECLARED = {
    "settings": ALL_SETTINGS,
    "route": route_keys(),
    "redirect": declared_keys(RouteRedirect),
    "certificates": declared_keys(CertificateFiles),
}
MODELS = {model for _, model in nested_models([*ALL_SETTINGS, *route_keys()])}
ALL_KEYS = [
    *ALL_SETTINGS,
    *route_keys(),
    *(key for model in sorted(MODELS, key=lambda model: model.__name__) for key in declared_keys(model)),
]
SPECIFIED = [(group, name) for group, specified in SPECIFICATION.items() for name in specified]


def identified(key: SettingKey) -> str:
    return f"{key.owner.__name__}.{key.name}"


def test_every_key_has_description_type_and_example() -> None:
    unread = [identified(key) for key in ALL_KEYS if key.field_type is None and key.model is None]
    assert unread == [], "their types need a Reader (config/fields/basic_types.py)"
    assert [identified(key) for key in ALL_KEYS if not (key.field.description or "").endswith(".")] == [], "a description is a sentence"
    assert [identified(key) for key in ALL_KEYS if not key.field.examples] == [], "Field(examples=[...])"


def test_every_key_is_declared_once() -> None:
    for group in DECLARED.values():
        names = [key.name for key in group]
        assert sorted(names) == sorted(set(names))


def test_specified_keys_are_declared_as_specified() -> None:
    declared = {(group, key.name): key for group, declared in DECLARED.items() for key in declared}
    assert [each for each in SPECIFIED if each not in declared] == [], "is specified and not declared"
    differing = {each: differences(SPECIFICATION[each[0]][each[1]], declared[each]) for each in SPECIFIED}
    assert {each: found for each, found in differing.items() if found} == {}


def differences(specified: Mapping[str, Any], key: SettingKey) -> list[str]:
    found = []
    if not key.type_name.startswith(specified["type"]):
        found.append(f"the type is {specified['type']}, not {key.type_name}")
    if specified.get("required", False) not in (key.is_required, "depends"):
        found.append("is required, or isn't")
    default = specified.get("default")
    if default == "computed" and key.when_unset is None:
        found.append("the default is computed: say so in when_unset")
    if default != "computed" and (key.default or None) != (default or None) and key.when_unset is None:
        found.append(f"the default is {default}, not {key.default}")
    if missing := set(specified.get("values", ())) - accepted(key):
        found.append(f"the values {missing} are missing")
    if specified.get("file_only", False) != (key.name in FILE_ONLY):
        found.append("is in the file only, or isn't")
    return found


def accepted(key: SettingKey) -> set[str]:
    return set() if key.field_type is None else set(key.field_type.schema.get("enum", ()))


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"type": "bool"}, "the type is"),
        ({"default": "15h"}, "the default is 15h, not 14h"),
        ({"values": ["a"]}, "are missing"),
        ({"file_only": True}, "file only"),
        ({"default": "computed"}, "say so in when_unset"),
    ],
)
def test_a_difference_is_noticed(change: dict[str, Any], difference: str) -> None:
    (key,) = (key for key in ALL_SETTINGS if key.name == "cookie_expire")
    assert differences(SPECIFICATION["settings"]["cookie_expire"], key) == []
    (found,) = differences({**SPECIFICATION["settings"]["cookie_expire"], **change}, key)
    assert difference in found


# A key is read as an attribute of one of these; in modules of the configuration also of `self`.
HOLDERS = frozenset(
    {
        "options",
        "_options",
        "settings",
        "route",
        "_route",
        "redirect",
        "before",
        "after",
        "pair",
        "test",
        "check",
        "span",
        "part",
        "send",
        "asking",
        "entry",
    }
)
RULES = frozenset(rule.__name__ for model in (Options, Route, *MODELS) for rule in model.RULES) | {rule.__name__ for rule in LINT_RULES}


@cache
def attributes_read() -> set[str]:
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            is_configuration = path.is_relative_to(ROOT / "config")
            found |= set(_read_in(parsed(path.read_text()), HOLDERS | {"self"} if is_configuration else HOLDERS))
    return found | {setting for key, setting in SINGLE_PROVIDER_KEYS.items() if key in found}


def _read_in(node: ast.AST, holders: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef) and node.name in RULES:  # to judge a setting is not to act on it
        return
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _last_name(node.value) in holders:
        yield node.attr
    elif isinstance(node, ast.Call) and _last_name(node.func) == "value_or_file" and isinstance(node.args[0], ast.Constant):
        yield str(node.args[0].value)
    elif isinstance(node, ast.Call) and _last_name(node.func) == "file_form" and isinstance(node.args[0], ast.Constant):
        yield f"{node.args[0].value}_file"
    for child in ast.iter_child_nodes(node):
        yield from _read_in(child, holders)


def _last_name(node: ast.AST) -> str:
    return getattr(node, "id", "") or getattr(node, "attr", "")


def test_every_key_is_read() -> None:
    assert [identified(key) for key in ALL_KEYS if not _is_read(key)] == []


def _is_read(key: SettingKey) -> bool:
    (attribute,) = (attribute for name, attribute in key.owner.attributes().items() if name == key.name)
    has_one_value = key.field_type is not None and len(key.field_type.schema.get("enum", ())) == 1
    return attribute in attributes_read() or has_one_value


def test_unread_key_is_noticed() -> None:
    rule = "def _check_redirect(settings):\n  settings.f"
    tree = parsed(f"options.a\noptions.b = 1\nother.c\ncompiled.route.d\nvalue_or_file('e')\nself.g\n{rule}")
    assert set(_read_in(tree, HOLDERS)) == {"a", "d", "e"}
    assert set(_read_in(tree, HOLDERS | {"self"})) == {"a", "d", "e", "g"}


def test_default_is_documented_as_written_in_a_file() -> None:
    assert [identified(key) for key in ALL_KEYS if re.match(r"<|\w+\(.*\)$", str(key.default))] == []


@pytest.mark.parametrize("name", files())
def test_the_pages_are_made_from_the_declarations(name: str) -> None:
    assert (DOCS / name).read_text() == files()[name], "run `make docs`"
