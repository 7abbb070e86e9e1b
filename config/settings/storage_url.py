"""Storage URLs: parsers of `databroker_storage_connection_string` and `database_url`."""

import re
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote

from config.fields.basic_types import text
from foundation.values import HostPort, SecretText, canonical_host

StoreKind = Literal["server", "sentinel", "cluster"]

_SYNTAX = (
    "must be kvstore://[user:password@]host[:port][/database], kvstores:// for TLS; "
    "or kvstore+sentinel://host:port,host:port/service[/database], or kvstore+cluster://host:port,host:port"
)
_URL = re.compile(r"(kvstore|redis|kvstores|rediss)(?:\+(sentinel|cluster))?://(?:([^/?#]*)@)?([^/@?#]+)(?:/([^?#]*))?")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?")
_PORTS = {"server": 6379, "sentinel": 26379, "cluster": 6379}


@dataclass(frozen=True, slots=True)
class StorageUrl:
    kind: StoreKind
    tls: bool
    hosts: tuple[HostPort, ...]
    username: str | None = None
    password: SecretText | None = None
    database: int = 0
    service: str = ""  # name of the server in Sentinel


# Options of libpq that an operator may set; gate sets the others.
_DATABASE_OPTIONS = frozenset(
    {"sslmode", "sslrootcert", "sslcert", "sslkey", "channel_binding", "require_auth", "target_session_attrs", "application_name"}
)
_DATABASE_SYNTAX = "must be sqlite:/// and a path, or postgresql://[user[:password]@]host[:port]/database"
_DATABASE = re.compile(r"postgres(?:ql)?://(?:([^/?#]*)@)?([^/@?#]*)/([^/?#]+)(?:\?([^#]*))?")


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """URL of Django's database. `name` is the database on the server, or the path of the SQLite file."""

    kind: Literal["sqlite", "postgresql"]
    name: str
    hosts: tuple[HostPort, ...] = ()  # empty: the local socket
    username: str | None = None
    password: SecretText | None = None
    options: tuple[tuple[str, str], ...] = ()


def parse_database_url(value: str) -> DatabaseUrl:
    """Parse a PostgreSQL URL. Raises ValueError without the value, which may contain a password."""
    match = _DATABASE.fullmatch(value)
    if match is None:
        raise ValueError(_DATABASE_SYNTAX)
    username, colon, password = (match[1] or "").partition(":")
    options = tuple(parse_qsl(match[4] or "", keep_blank_values=True))
    for name, _ in options:
        if name not in _DATABASE_OPTIONS:
            raise ValueError(f"has an option that is not one of {', '.join(sorted(_DATABASE_OPTIONS))}")
    return DatabaseUrl(
        "postgresql",
        unquote(match[3]),
        tuple(_host_port(host, 5432, _DATABASE_SYNTAX) for host in match[2].split(",") if host),
        unquote(username) or None,
        SecretText(unquote(password)) if colon else None,
        options,
    )


def parse_storage_url(value: Any) -> StorageUrl:
    """Parse a storage URL. Raises ValueError without the value, which may contain a password."""
    match = _URL.fullmatch(text(value))
    if match is None:
        raise ValueError(_SYNTAX)
    kind: StoreKind = match[2] or "server"  # type: ignore[assignment]
    hosts = tuple(_host_port(host, _PORTS[kind], _SYNTAX) for host in match[4].split(","))
    if kind == "server" and len(hosts) > 1:
        raise ValueError(f"multiple hosts require `+sentinel` or `+cluster`: {_SYNTAX}")
    username, password = _credentials(match[3])
    service, database = _path(kind, match[5] or "")
    return StorageUrl(kind, match[1] in ("kvstores", "rediss"), hosts, username, password, database, service)


def _host_port(written: str, default: int, form: str) -> HostPort:
    match = _HOST.fullmatch(written)
    if match is None or (match[2] and not 0 < int(match[2]) < 65536):
        raise ValueError(form)
    return HostPort(canonical_host(match[1]).strip("[]"), int(match[2] or default))


def _credentials(written: str | None) -> tuple[str | None, SecretText | None]:
    if not written:
        return None, None
    username, colon, password = written.partition(":")
    if not colon:  # kvstore://password@host, as other clients accept
        username, password = "", username
    return unquote(username) or None, SecretText(unquote(password))


def _path(kind: StoreKind, written: str) -> tuple[str, int]:
    parts = written.strip("/").split("/") if written.strip("/") else []
    service = unquote(parts.pop(0)) if kind == "sentinel" and parts else ""
    if kind == "sentinel" and not service:
        raise ValueError("has no Sentinel service name: kvstore+sentinel://host:port/service")
    if len(parts) > 1 or (parts and not re.fullmatch(r"[0-9]{1,4}", parts[0])):
        raise ValueError(f"the database must be a number: {_SYNTAX}")
    database = int(parts[0]) if parts else 0
    if kind == "cluster" and database:
        raise ValueError("a cluster has database 0 only")
    return service, database
