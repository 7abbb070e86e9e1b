"""The settings of what we remember: the store's kind, and Django's database."""

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, unquote

from pydantic import Field, ValidationInfo

from gateproject.config.fields import files_of, text
from gateproject.config.reader import TEXT, Reader, one_of
from gateproject.config.validation import Settings

_SQLITE = "sqlite:///"
DATABASE_FILE = "gate.sqlite3"


def database_location(value: Any, info: ValidationInfo) -> str:
    """`sqlite:///<path>`, percent-encoded and absolute; without a value a file below `data_dir`."""
    if value is None:
        directory = (info.data or {}).get("data_dir")
        return "" if directory is None else _SQLITE + quote(str(directory / DATABASE_FILE))
    scheme, colon, _ = text(value).partition(":")
    if colon and scheme in ("postgres", "postgresql"):
        raise ValueError("PostgreSQL is specified but not available in this release")
    if not value.startswith(_SQLITE) or value == _SQLITE:
        raise ValueError(f"must be {_SQLITE} and a path")
    file = unquote(value.removeprefix(_SQLITE))
    return _SQLITE + quote(str(files_of(info).path(text(file))))


class DatabrokerSettings(Settings):
    databroker_storage_type: Annotated[str, one_of("memory", later=("kvstore", "redis", "database"))] = Field(
        "memory", description="Where sessions, users and groups are kept. Restarting `memory` signs everybody out.", examples=["memory"]
    )
    database_url: Annotated[str, Reader("URL", database_location, TEXT)] = Field(
        None,
        validate_default=True,
        description="Django's database, for the admin and its history.",
        examples=["sqlite:////var/lib/gate/gate.sqlite3"],
        json_schema_extra={"when_unset": "a SQLite file below `data_dir`"},
    )

    @property
    def database_path(self) -> Path:
        return Path(unquote(self.database_url.removeprefix(_SQLITE)))
