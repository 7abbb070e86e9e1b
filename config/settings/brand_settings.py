"""Brand: the name, picture and colour of whoever runs this gate, on each page that people see."""

from typing import Annotated, Any

from pydantic import Field, ValidationInfo

from config.fields import image
from config.fields.basic_types import json_object, text, watched_file
from config.fields.color import Colour
from config.fields.display_text import line
from config.fields.field_type import SettingReader
from config.validation import Settings
from foundation.values import WatchedFile

LONGEST_NAME = 40
LARGEST_LOGO = 12 * 1024  # bytes; each page carries it, as a refusal's may load nothing


def logo_file(value: Any, info: ValidationInfo) -> WatchedFile:
    if isinstance(value, WatchedFile):
        return value
    written = text(value)
    if not written.lower().endswith((".png", ".svg")):
        raise ValueError("must be the path of a .png or .svg file")
    file = watched_file(written, info)
    if len(file.content) > LARGEST_LOGO:
        raise ValueError(f"must be at most {LARGEST_LOGO // 1024} KiB (it is embedded in every page)")
    image.media_type(file.content)
    return file


def written_keys(value: Any) -> Any:
    """Keys of an object, which the environment has as JSON."""
    return json_object(value) if isinstance(value, str) and value.lstrip().startswith("{") else value


class BrandKeys(Settings):
    """What people see of whoever runs this gate."""

    name: Annotated[str, line(LONGEST_NAME)] = Field(
        "gate", description="Name at the top of every page and of the admin.", examples=["Example Corp"]
    )
    logo: Annotated[WatchedFile, SettingReader("file path", logo_file, {"type": "string", "pattern": r"\S"})] | None = Field(
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
