"""Source file of an import: its keys with values and lines, and the product that it belongs to."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.fields.setting_files import MAX_CONFIG_BYTES, read_capped
from config.importing.conversion import ForeignKey
from config.importing.oauth2_proxy_flags import settings_in
from config.parsing.document import Document, DocumentError, format_key_path, pack_position
from config.parsing.parser import parse
from config.parsing.yaml_reader import parse_plain_scalar
from foundation.errors import ConfigError, Problem

POMERIUM, OAUTH2_PROXY, AUTHELIA, AUTHENTIK, TRAEFIK = "Pomerium", "oauth2-proxy", "Authelia", "authentik", "Traefik (Docker Compose)"
_PREFIX = "OAUTH2_PROXY_"
_VARIABLE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")
# Keys of one of the two products; keys of both are not listed.
_POMERIUM_KEYS = {"authenticate_service_url", "idp_provider", "routes", "policy", "shared_secret", "databroker_storage_type", "services"}
_OAUTH2_PROXY_KEYS = {
    "client_id",
    "upstreams",
    "email_domains",
    "provider",
    "providers",
    "upstreamConfig",
    "http_address",
    "oidc_issuer_url",
}
# Key and type that identify each other product.
_DETECTORS = {
    "access_control": (AUTHELIA, dict),
    "entries": (AUTHENTIK, list),
    "applications": (AUTHENTIK, dict | list),
    "services": (TRAEFIK, dict),
}


@dataclass(frozen=True, slots=True)
class ForeignConfig:
    """Configuration of another product. `values` are as in the file; relative paths start at `base`."""

    product: str
    values: dict[str, Any]
    document: Document
    base: Path

    def source(self, *path: str | int) -> ForeignKey:
        place = self.document.find_location(path)
        return ForeignKey(format_key_path(path), None if place is None else place[0])

    def items(self) -> Iterator[tuple[str, Any, ForeignKey]]:
        for key, value in self.values.items():
            yield key, value, self.source(key)


def read(path: Path) -> ForeignConfig:
    """Read YAML, JSON, TOML (also named .cfg), or lines of NAME=value.

    Raises ConfigError if the file has another format, or is of no known product.
    """
    try:
        content = read_capped(path, MAX_CONFIG_BYTES)
        document = _variables(content) if _is_environment(path) else parse(content, _detect_format(path), with_tags=True)
    except ValueError as error:
        raise ConfigError([Problem("", str(error))]) from None
    except DocumentError as error:
        raise ConfigError([Problem("", str(error), error.line, error.column, str(path))]) from None
    if not isinstance(document.value, dict) or not document.value:
        raise ConfigError([Problem("", f"{path}: contains no settings")])
    # A Compose file with Traefik's labels has routes. Without them, it may run oauth2-proxy, as may a Kubernetes manifest.
    if not _has_labels_of_traefik(document.value) and (found := settings_in(document)) is not None:
        return ForeignConfig(OAUTH2_PROXY, found.value, found, path.absolute().parent)
    return ForeignConfig(detect_product(document.value, path), document.value, document, path.absolute().parent)


def _has_labels_of_traefik(values: dict[str, Any]) -> bool:
    services = values.get("services")
    return isinstance(services, dict) and "traefik.http." in str(services)


def detect_product(values: dict[str, Any], path: Path) -> str:
    for key, (product, kind) in _DETECTORS.items():
        if isinstance(values.get(key), kind):
            return product
    keys = set(values)
    pomerium_keys, oauth2_proxy_keys = len(keys & _POMERIUM_KEYS), len(keys & _OAUTH2_PROXY_KEYS)
    if pomerium_keys == oauth2_proxy_keys:
        raise ConfigError(
            [Problem("", f"{path}: not recognized as a configuration of Pomerium, oauth2-proxy, Authelia, authentik or Traefik")]
        )
    return POMERIUM if pomerium_keys > oauth2_proxy_keys else OAUTH2_PROXY


def _is_environment(path: Path) -> bool:
    return path.suffix in (".env", ".properties") or path.name == ".env"


def _detect_format(path: Path) -> str:
    return ".toml" if path.suffix in (".cfg", ".conf", ".toml") else path.suffix


def _variables(content: bytes) -> Document:
    values: dict[str, Any] = {}
    positions: dict[Any, int] = {}
    for number, line in enumerate(content.decode("utf-8-sig", "strict").splitlines(), start=1):
        written = line.strip()
        if not written or written.startswith("#"):
            continue
        match = _VARIABLE.fullmatch(written)
        if match is None:
            raise DocumentError("is not NAME=value", number)
        key = match[1].removeprefix(_PREFIX).lower()
        values[key], positions[key] = _unquoted(match[2].strip()), pack_position(number, 1)
    return Document(values, {id(values): positions})


def _unquoted(text: str) -> Any:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return parse_plain_scalar(text)
