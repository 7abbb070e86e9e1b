"""Portal keys of a route: under which name, with which picture, and whether people find its application on their start page;
and what they read who may not open it."""

from typing import Annotated, Any

from pydantic import ValidationInfo

from config.types import picture
from config.types.fields import text, watched_file
from config.types.line import line
from config.types.reader import SettingReader
from foundation.values import WatchedFile

SHOW, HIDE = "show", "hide"
CHOICES = (SHOW, HIDE)
LONGEST_TITLE, LONGEST_DESCRIPTION, LONGEST_CATEGORY, LONGEST_MESSAGE = 60, 200, 40, 300
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


def icon(value: Any, info: ValidationInfo) -> str | WatchedFile:
    if isinstance(value, WatchedFile):
        return value
    written = text(value)
    if written in ICONS:
        return written
    if not written.lower().endswith((".png", ".svg")):
        raise ValueError(f"must be the path of a .png or .svg file, or one of {', '.join(ICONS)}")
    file = watched_file(written, info)
    picture.media_type(file.content)
    return file


Title = Annotated[str, line(LONGEST_TITLE)]
Description = Annotated[str, line(LONGEST_DESCRIPTION)]
Category = Annotated[str, line(LONGEST_CATEGORY)]
RefusalMessage = Annotated[str, line(LONGEST_MESSAGE)]
Icon = Annotated[str | WatchedFile, SettingReader("file path or word", icon, {"type": "string", "pattern": r"\S"})]
