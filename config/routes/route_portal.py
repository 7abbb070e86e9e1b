"""Portal keys of a route: name, icon and visibility of the application, and the message for denied users."""

from typing import Annotated, Any

from pydantic import Field, ValidationInfo

from config.fields import image
from config.fields.basic_types import text, watched_file
from config.fields.display_text import display_text
from config.fields.field_type import FieldType, choice_type
from config.validation import Settings
from foundation.values import WatchedFile

SHOW, HIDE = "show", "hide"
PORTAL_MODES = (SHOW, HIDE)
MAX_TITLE_LENGTH, MAX_DESCRIPTION_LENGTH, MAX_CATEGORY_LENGTH, MAX_MESSAGE_LENGTH = 60, 200, 40, 300
# Drawn in authenticate/portal/icons.py.
ICONS = (
    "book",
    "calendar",
    "chart",
    "chat",
    "cloud",
    "code",
    "database",
    "files",
    "globe",
    "home",
    "mail",
    "money",
    "people",
    "server",
    "settings",
    "shield",
    "terminal",
    "ticket",
)


def parse_icon(value: Any, info: ValidationInfo) -> str | WatchedFile:
    if isinstance(value, WatchedFile):
        return value
    written = text(value)
    if written in ICONS:
        return written
    if not written.lower().endswith((".png", ".svg")):
        raise ValueError(f"must be the path of a .png or .svg file, or one of {', '.join(ICONS)}")
    file = watched_file(written, info)
    image.detect_image_type(file.content)
    return file


Title = Annotated[str, display_text(MAX_TITLE_LENGTH)]
Description = Annotated[str, display_text(MAX_DESCRIPTION_LENGTH)]
Category = Annotated[str, display_text(MAX_CATEGORY_LENGTH)]
RefusalMessage = Annotated[str, display_text(MAX_MESSAGE_LENGTH)]
Icon = Annotated[str | WatchedFile, FieldType("file path or word", parse_icon, {"type": "string", "pattern": r"\S"})]


class PortalSettings(Settings):
    """Route keys of the portal and of the page of a denied user."""

    title: Title | None = Field(
        None,
        description="Name of the application in the portal.",
        examples=["Team wiki"],
        json_schema_extra={"when_unset": "derived from the host"},
    )
    description: Description | None = Field(
        None, description="One sentence about the application in the portal.", examples=["Minutes, plans and how-tos"]
    )
    icon: Icon | None = Field(
        None,
        description="Icon in the portal: a small PNG, an SVG that contains only shapes, or a word.",
        examples=["book"],
        json_schema_extra={"when_unset": "the first letter of the title"},
    )
    category: Category | None = Field(None, description="Heading of the application in the portal.", examples=["Engineering"])
    portal: Annotated[str, choice_type(*PORTAL_MODES)] | None = Field(
        None,
        description="Whether users who may open the application see it in the portal.",
        examples=[HIDE],
        json_schema_extra={"when_unset": "`show`; `hide` for redirect routes"},
    )
    refusal_message: RefusalMessage | None = Field(
        None,
        description="Advice on the error page of denied users.",
        examples=["Ask the payroll team for access: payroll@example.com."],
        json_schema_extra={"when_unset": "advice to contact the application's owners"},
    )
