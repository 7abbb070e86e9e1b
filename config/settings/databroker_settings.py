"""Settings of the data broker's store, and of Django's database."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from urllib.parse import unquote

from pydantic import Field, ValidationInfo

from config.fields.basic_types import Bool, Duration, File, file_form, setting_files, text
from config.fields.field_type import TEXT, FieldType
from config.fields.pem import check_ca_certificates, check_key_matches
from config.settings.storage_url import DatabaseUrl, StorageUrl, parse_database_url, parse_storage_url
from config.validation import Finding, Rule, Settings
from foundation.values import SecretBytes

if TYPE_CHECKING:
    from config.options import Options

_SQLITE = "sqlite:///"
DATABASE_FILE = "gate.sqlite3"
_TYPES = {"memory": "memory", "kvstore": "kvstore", "redis": "kvstore", "database": "database"}


def storage_type(value: Any) -> str:
    if not isinstance(value, str) or value not in _TYPES:
        raise ValueError(f"must be one of {', '.join(_TYPES)}")
    return _TYPES[value]


def database_location(value: Any, info: ValidationInfo) -> DatabaseUrl:
    """Parse `sqlite:///<path>`, absolute and percent-encoded, or a PostgreSQL URL. The default is a file in `data_dir`."""
    if value is None:
        directory = (info.data or {}).get("data_dir")
        return DatabaseUrl("sqlite", str(directory / DATABASE_FILE) if directory is not None else "")
    if not text(value).startswith(_SQLITE):
        return parse_database_url(value)
    if value == _SQLITE:
        raise ValueError(f"must be {_SQLITE} and a path")
    return DatabaseUrl("sqlite", str(setting_files(info).path(text(unquote(value.removeprefix(_SQLITE))))))


def _check_kvstore_url(settings: "Options") -> Iterator[Finding]:
    if settings.databroker_storage_type == "kvstore" and settings.databroker_storage_connection_string is None:
        yield ("databroker_storage_connection_string",), "is required with databroker_storage_type: kvstore, as in kvstore://host:6379/0"


def _check_storage_tls(settings: "Options") -> Iterator[Finding]:
    if settings.databroker_storage_connection_string is None or settings.databroker_storage_connection_string.tls:
        return
    for name in ("ca_file", "cert_file", "key_file", "tls_skip_verify"):
        if getattr(settings, f"databroker_storage_{name}"):
            yield (f"databroker_storage_{name}",), "requires TLS. Use kvstores:// in the connection string"


def _check_storage_tls_files(settings: "Options") -> Iterator[Finding]:
    certificate, key = settings.databroker_storage_cert_file, settings.databroker_storage_key_file
    if (certificate is None) != (key is None):
        present, absent = ("cert_file", "key_file") if certificate else ("key_file", "cert_file")
        yield (f"databroker_storage_{present}",), f"needs databroker_storage_{absent} too"
    try:
        if certificate is not None and key is not None:
            check_key_matches(certificate.content, SecretBytes(key.content))
    except ValueError as error:
        yield ("databroker_storage_cert_file",), str(error)
    try:
        if settings.databroker_storage_ca_file is not None:
            check_ca_certificates(settings.databroker_storage_ca_file.content)
    except ValueError as error:
        yield ("databroker_storage_ca_file",), str(error)


class DatabrokerSettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (_check_kvstore_url, _check_storage_tls, _check_storage_tls_files)

    databroker_storage_type: Annotated[str, FieldType("string", storage_type, {"type": "string", "enum": list(_TYPES)})] = Field(
        "memory",
        description="Store of sessions, users and groups: `memory` (lost on restart), `kvstore` (Redis) or `database` (`database_url`).",
        examples=["kvstore"],
    )
    databroker_storage_connection_string_file: File | None = file_form("databroker_storage_connection_string", "store-url")
    databroker_storage_connection_string: Annotated[StorageUrl, FieldType("string", parse_storage_url, TEXT)] | None = Field(
        None,
        description="URL of the kvstore: `kvstore://`, or `kvstores://` with TLS. Append `+sentinel` or `+cluster` to the scheme "
        "for several servers.",
        examples=["kvstores://:PASSWORD@store.internal:6379/0"],
    )
    databroker_storage_ca_file: File | None = Field(
        None, description="Path to additional CA certificates for the kvstore's certificate, in PEM.", examples=["ca.pem"]
    )
    databroker_storage_cert_file: File | None = Field(
        None, description="Path to the client certificate for the kvstore, in PEM.", examples=["client.pem"]
    )
    databroker_storage_key_file: File | None = Field(
        None, description="Path to the client key for the kvstore, in PEM.", examples=["client-key.pem"]
    )
    databroker_storage_tls_skip_verify: Bool = Field(
        False, description="Accepts any certificate from the kvstore. Use it for tests only.", examples=[True]
    )
    session_staleness: Duration = Field(
        timedelta(seconds=30),
        description="Time for which cached sessions stay valid without the data broker; then requests get 503. Below 3s, `0` "
        "included, they stay valid until the loss is noticed, at most 3s.",
        examples=["30s"],
    )
    database_url_file: File | None = file_form("database_url", "database-url")
    database_url: Annotated[DatabaseUrl, FieldType("URL", database_location, TEXT)] = Field(
        None,
        validate_default=True,
        description="Database of the admin, and of all records with `databroker_storage_type: database`: `sqlite:///<path>` or "
        "`postgresql://`. In split mode, authorize records its decisions with the same URL as authenticate.",
        examples=["postgresql://gate:PASSWORD@db.internal/gate?sslmode=verify-full&sslrootcert=/etc/gate/internal-ca.pem"],
        json_schema_extra={"when_unset": "a SQLite file below `data_dir`"},
    )
