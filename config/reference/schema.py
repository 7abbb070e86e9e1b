"""JSON Schema (Draft 2020-12) of a configuration file, for editors, generated from the declarations of the settings."""

from collections.abc import Iterable, Mapping
from typing import Any

from config.fields.field_type import BASE64, JsonSchema
from config.reference.setting_catalog import SettingKey, declared_keys, route_keys, settings_by_topic
from config.routes.route import Route
from config.validation import Settings

# Keys that also accept base64 of YAML or JSON.
AS_TEXT = frozenset({"policy"})


def json_schema() -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    properties = build_properties([key for group in settings_by_topic().values() for key in group], definitions, nullable=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gate",
        "description": "A configuration file of gate. Settings that it omits can come from environment variables.",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "patternProperties": {"^x-": {}},
        "$defs": dict(sorted(definitions.items())),
    }


def build_properties(declared: Iterable[SettingKey], definitions: dict[str, Any], *, nullable: bool) -> dict[str, Any]:
    """Return the schema of these keys. With `nullable`, a key without a value is unset."""
    return {key.name: _property(key, definitions, nullable=nullable) for key in sorted(declared, key=lambda key: key.name)}


def _property(key: SettingKey, definitions: dict[str, Any], *, nullable: bool) -> dict[str, Any]:
    shape = _shape(key, definitions)
    described = {"description": key.field.description, **(_or_null(shape) if nullable or key.may_be_null else shape)}
    if key.default is not None:
        described["default"] = key.default
    return {**described, "examples": key.field.examples}


def _shape(key: SettingKey, definitions: dict[str, Any]) -> dict[str, Any]:
    if key.field_type is not None:
        return dict(key.field_type.schema)
    model = key.model
    if model is None:
        raise TypeError(f"{key.name} has neither a Reader nor a model")
    reference = {"$ref": f"#/$defs/{model.__name__}"}
    if model.__name__ not in definitions:
        definitions[model.__name__] = {}  # a model may contain itself
        definitions[model.__name__] = _object(model, definitions)
    shape = {"type": "array", "items": reference} if key.is_list_of_models else reference
    return {"anyOf": [shape, BASE64]} if key.name in AS_TEXT else shape


def _object(model: type[Settings], definitions: dict[str, Any]) -> dict[str, Any]:
    declared = route_keys() if model is Route else declared_keys(model)
    shape: dict[str, Any] = {
        "type": "object",
        "description": model.__doc__,
        "additionalProperties": False,
        "properties": build_properties(declared, definitions, nullable=False),
    }
    if required := [key.name for key in declared if key.is_required]:
        shape["required"] = required
    if model is Route:
        shape["anyOf"] = [{"required": ["to"]}, {"required": ["redirect"]}]
    return shape


def _or_null(shape: JsonSchema) -> Mapping[str, Any]:
    if isinstance(shape.get("type"), str) and "enum" not in shape:
        return {**shape, "type": [shape["type"], "null"]}
    if "anyOf" in shape:
        return {**shape, "anyOf": [*shape["anyOf"], {"type": "null"}]}
    return {"anyOf": [shape, {"type": "null"}]}
