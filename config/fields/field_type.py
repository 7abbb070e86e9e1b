"""Field type of a setting: its name in the documentation, its JSON Schema, and its parser."""

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, PlainValidator
from pydantic_core import CoreSchema

JsonSchema = Mapping[str, Any]  # JSON Schema

MAX_NAMED_CHARACTERS = 3

TEXT: JsonSchema = {"type": "string", "pattern": r"\S"}
WORD: JsonSchema = {"type": ["string", "number", "boolean"]}
BOOL: JsonSchema = {
    "anyOf": [
        {"type": "boolean"},
        {"type": "integer", "enum": [0, 1]},
        {"type": "string", "pattern": r"^(1|0|[Tt]|TRUE|[Tt]rue|[Yy]|YES|[Yy]es|ON|[Oo]n|[Ff]|FALSE|[Ff]alse|[Nn]|NO|[Nn]o|OFF|[Oo]ff)$"},
    ]
}
POSITIVE_DURATION: JsonSchema = {"type": "string", "maxLength": 64, "pattern": r"^(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$"}
DURATION: JsonSchema = {"anyOf": [POSITIVE_DURATION, {"type": "string", "enum": ["0"]}, {"type": "integer", "enum": [0]}]}
LIST: JsonSchema = {"anyOf": [{"type": "array", "items": TEXT}, TEXT]}
MAP: JsonSchema = {"anyOf": [{"type": "object", "additionalProperties": {"type": "string"}}, TEXT]}
BASE64: JsonSchema = {"type": "string", "pattern": r"^[A-Za-z0-9+/]*={0,2}$"}
HOST_PORT: JsonSchema = {"type": "string", "pattern": r"^$|:[0-9]{1,5}$"}
URL: JsonSchema = {"type": "string", "pattern": r"^[A-Za-z][A-Za-z0-9+.\-]*://[^/?#]"}
WEB_URL: JsonSchema = {"type": "string", "pattern": r"^[Hh][Tt][Tt][Pp][Ss]?://[^/?#]"}
PATH: JsonSchema = {"type": "string", "pattern": r"^/"}


@dataclass(frozen=True, eq=False)
class FieldType:
    """Type of a setting, for `Annotated`, as in `Bool = Annotated[bool, FieldType("bool", boolean, BOOL)]`.

    `read` receives the configuration form and raises ValueError with the reason; it may take pydantic's ValidationInfo as a second
    argument. `schema` is JSON Schema that accepts everything that `read` accepts and rejects other types.
    """

    type_name: str
    read: Callable[..., Any]
    schema: JsonSchema

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return PlainValidator(self.read).__get_pydantic_core_schema__(source, handler)


def unusual_characters(value: Any) -> str:
    """Return "; it contains U+201C ..." for invisible and non-ASCII characters, and "" if there are none."""
    found = dict.fromkeys(letter for letter in value if not letter.isascii() or not letter.isprintable()) if isinstance(value, str) else {}
    names = (f"U+{ord(letter):04X} {unicodedata.name(letter, '')}".rstrip() for letter in list(found)[:MAX_NAMED_CHARACTERS])
    return f"; it contains {', '.join(names)}" if found else ""


def control_characters(value: str) -> str:
    """Return the error message for text that contains control characters."""
    if value.endswith("\n") and value.rstrip("\n").isprintable():
        return "ends in a line break. In YAML, write `>-` or `|-` in place of `>` or `|`"
    return "must not contain control characters"


def choice_type(*choices: str, hint: str = "") -> FieldType:
    """Return the type of one of `choices`; `hint` is appended to the error message."""

    def choose(value: Any) -> str:
        if value in choices:
            return str(value)
        raise ValueError(f"must be one of {', '.join(choices)}" + (f"; {hint}" if hint else "") + unusual_characters(value))

    return FieldType("string", choose, {"type": "string", "enum": list(choices)})


def integer_type(minimum: int, maximum: int) -> FieldType:
    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise ValueError(f"must be a whole number from {minimum} to {maximum}")
        return value

    return FieldType("integer", read, {"type": "integer", "minimum": minimum, "maximum": maximum})
