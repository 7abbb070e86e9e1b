"""Brand: name, logo and color of gate's pages."""

from typing import Annotated, Any

from pydantic import Field, ValidationInfo

from config.fields import image
from config.fields.basic_types import json_object, text, watched_file
from config.fields.color import Colour
from config.fields.display_text import display_text
from config.fields.field_type import FieldType
from config.validation import Settings
from foundation.values import WatchedFile

MAX_NAME_LENGTH = 40
MAX_LOGO_BYTES = 12 * 1024  # bytes; the logo is embedded in each page, because error pages must not load other resources


def logo_file(value: Any, info: ValidationInfo) -> WatchedFile:
    if isinstance(value, WatchedFile):
        return value
    written = text(value)
    if not written.lower().endswith((".png", ".svg")):
        raise ValueError("must be the path of a .png or .svg file")
    file = watched_file(written, info)
    if len(file.content) > MAX_LOGO_BYTES:
        raise ValueError(f"must be at most {MAX_LOGO_BYTES // 1024} KiB (it is embedded in every page)")
    image.detect_image_type(file.content)
    return file


def parse_brand(value: Any) -> Any:
    """Parse an object, which the environment contains as JSON."""
    return json_object(value) if isinstance(value, str) and value.lstrip().startswith("{") else value


class BrandSettings(Settings):
    """Name, logo and color of gate's pages."""

    name: Annotated[str, display_text(MAX_NAME_LENGTH)] = Field(
        "gate", description="Name at the top of every page and of the admin.", examples=["Example Corp"]
    )
    logo: Annotated[WatchedFile, FieldType("file path", logo_file, {"type": "string", "pattern": r"\S"})] | None = Field(
        None,
        description="Logo: a small PNG, or an SVG that contains only shapes.",
        examples=["logo.svg"],
        json_schema_extra={"when_unset": "gate's shield in the accent color"},
    )
    accent: Colour | None = Field(
        None,
        description="Color of buttons and links. gate adapts it where the contrast would be too low.",
        examples=["#0b6e4f"],
        json_schema_extra={"when_unset": "gate's blue"},
    )
