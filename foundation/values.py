"""Types of setting values: secrets, addresses, URLs, files. Pure, so that `authorize.policy` may import it."""

import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path

import idna

from foundation.bounded_cache import bounded_lru_cache

DEFAULT_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?")
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(\d{1,5}))?")
_VISIBLE = re.compile(r"[!-\[\]-~]*")  # no backslash, because browsers treat it as a slash
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
# Fast path: hosts in canonical form already. A last label that starts with a digit is accepted in IPv4 addresses only.
_PLAIN_HOST = re.compile(rf"(?:{_LABEL.pattern}\.)*[a-z](?:[a-z0-9-]{{0,61}}[a-z0-9])?|(?:{_BYTE}\.){{3}}{_BYTE}")
_UPSTREAM_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")


class SecretBytes(bytes):
    """Bytes that are masked in logs and messages; `reveal()` returns the value."""

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "<secret>"

    def reveal(self) -> bytes:
        return bytes(self)


class SecretText(str):
    """Text that is masked in logs and messages, also by `str()`; `reveal()` returns the value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "<secret>"

    def reveal(self) -> str:
        return "".join(self)


@dataclass(frozen=True, slots=True)
class HostPort:
    """Listening address. An empty host means all addresses; an IPv6 host has no brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Url:
    """Absolute URL. `host` is lower-case ASCII, with brackets around IPv6; `port` is None for the scheme's default."""

    scheme: str
    host: str
    port: int | None = None
    path: str = ""
    query: str = ""

    @property
    def host_port(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host_port}"

    def __str__(self) -> str:
        return f"{self.origin}{self.path}?{self.query}" if self.query else f"{self.origin}{self.path}"


@dataclass(frozen=True, slots=True)
class WatchedFile:
    """Content of a file that a setting names, as of the load of the configuration."""

    path: Path
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """Certificate chain and key, both PEM; `source` is the setting that names them."""

    certificate: bytes
    key: SecretBytes
    source: str


@bounded_lru_cache(256, max_key_length=64)  # several callers parse the host of each upstream
def parse_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address without brackets; return None for anything else."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = parse_ip(host.strip("[]"))
    return address is not None and address.is_loopback


def is_encrypted_or_local(scheme: str, host: str) -> bool:
    """Return whether traffic to this URL is protected in transit: by TLS, or because it stays on this machine."""
    return scheme == "https" or (scheme == "http" and is_loopback(host))


def parse_url(text: str, *, wildcard: bool = False, underscore: bool = False) -> Url:
    """Parse an absolute URL. Raise ValueError with the reason.

    `wildcard` allows a leading `*.`, `underscore` allows `_` in host names.
    """
    match = _URL.fullmatch(text)
    if match is None or not match[2]:
        raise ValueError("needs a scheme and a host, as in https://app.example.com, and no fragment")
    scheme, authority, path, query = match[1].lower(), match[2], match[3], match[4] or ""
    if "@" in authority:
        raise ValueError("must not contain a user name or password")
    if (path or query) and (not _VISIBLE.fullmatch(path + query) or _BAD_ESCAPE.search(path + query)):
        raise ValueError("contains a character that a URL can't have. Percent-encode it")
    host, port = _split_authority(authority)
    host = canonical_host(host, wildcard=wildcard, underscore=underscore)
    return Url(scheme, host, None if port == DEFAULT_PORTS.get(scheme) else port, path, query)


def _split_authority(authority: str) -> tuple[str, int | None]:
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise ValueError("the host or port is malformed")
    port = None if match[2] is None else int(match[2])
    if port is not None and not 1 <= port <= 65535:
        raise ValueError("the port must be from 1 to 65535")
    return match[1], port


def canonical_host(text: str, *, wildcard: bool = False, underscore: bool = False) -> str:
    """Return the host as lower-case ASCII (IDNA A-labels) without trailing dot. Raise ValueError if it is invalid."""
    if len(text) <= 253 and _PLAIN_HOST.fullmatch(text):
        return text
    if text.startswith("["):
        return _canonical_ipv6(text)
    star, name = ("*.", text[2:]) if wildcard and text.startswith("*.") else ("", text)
    name = name.removesuffix(".")
    if "*" in name:
        raise ValueError("a wildcard is only allowed as the whole first label, as in *.example.com")
    if len(name) > 253:  # before IDNA, whose cost grows faster than its input
        raise ValueError("the host is longer than 253 characters")
    name = name.lower() if name.isascii() else _ascii_name(name)
    labels = name.split(".")
    label = _UPSTREAM_LABEL if underscore else _LABEL
    if len(name) > 253 or not all(label.fullmatch(part) for part in labels):
        raise ValueError("the host may contain only letters, digits, hyphens and dots")
    if re.fullmatch(r"\d+|0x[0-9a-f]*", labels[-1]):
        # WHATWG URL 3.5 parses such a host as IPv4 in any notation; only dotted decimal is unambiguous.
        _check_ipv4(star + name)
    return star + name


def _canonical_ipv6(text: str) -> str:
    try:
        address = ipaddress.IPv6Address(text[1:-1] if text.endswith("]") else "")
    except ValueError:
        raise ValueError("the IPv6 address is malformed") from None
    if address.scope_id is not None:
        raise ValueError("an IPv6 address must not have a zone")
    return f"[{address.compressed}]"


def _check_ipv4(name: str) -> None:
    try:
        ipaddress.IPv4Address(name)
    except ValueError:
        raise ValueError("the IPv4 address must be written as four decimal numbers") from None


def _ascii_name(name: str) -> str:
    try:
        return idna.encode(name, uts46=True).decode("ascii")
    except UnicodeError:
        raise ValueError("the host is not a valid international domain name") from None
