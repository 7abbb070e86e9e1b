"""Settings of all services: addresses, certificates, cookies, pages, logs and timeouts."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, WrapValidator

from config.fields.basic_types import (
    KEY_GENERATION_HINT,
    Address,
    Base64,
    Base64Secret,
    Bool,
    Duration,
    File,
    FilePath,
    KeyRing,
    PemOrFile,
    PositiveDuration,
    Text,
    file_form,
    integer,
    value_or_file,
)
from config.fields.contact import Contact
from config.fields.field_type import FieldType, choice_type
from config.fields.header_fields import is_token
from config.settings.brand_settings import BrandSettings, parse_brand
from config.validation import Finding, Rule, Settings
from foundation.values import HostPort, canonical_host

if TYPE_CHECKING:
    from config.options import Options

MAX_ROUTES_WITH_METRICS = 500
MAX_WORKERS = 64
AUTO = "auto"
LOG_LEVELS = ("debug", "info", "warn", "error")


def _default_log_level(value: Any, handler: Any, info: Any) -> Any:
    return (info.data or {}).get("log_level") if value is None else handler(value)


def _cookie_name(name: str) -> str:
    if not is_token(name):
        raise ValueError("must be a cookie name: letters, digits, hyphens and underscores (RFC 6265 4.1.1)")
    return name


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ValueError("must be the IANA name of a time zone, as in Europe/Berlin or UTC") from None
    return name


def worker_count(value: Any) -> int | str:
    """Parse a number of processes, or `auto`: the number of available cores at startup."""
    if value == AUTO:
        return AUTO
    try:
        found = integer(value)
    except ValueError:
        found = 0
    if not 1 <= found <= MAX_WORKERS:
        raise ValueError(f"must be a whole number from 1 to {MAX_WORKERS}, or {AUTO}")
    return found


def _check_workers(settings: "Options") -> Iterator[Finding]:
    if settings.workers == 1:
        return
    if settings.data_plane == "envoy":
        yield ("workers",), "requires data_plane: embedded; Envoy uses all cores"
    if settings.services in ("authorize", "databroker"):
        yield ("workers",), f"is for services that users reach. With services: {settings.services} run several instances instead"


def _check_cookie_prefix(settings: "Options") -> Iterator[Finding]:
    # Browsers ignore the case of a prefix, and reject a cookie that does not meet its requirements.
    name = settings.cookie_name.lower()
    if name.startswith(("__host-", "__secure-")) and not settings.cookie_secure:
        yield ("cookie_name",), "has a prefix that requires cookie_secure: browsers would reject the cookie"
    if name.startswith("__host-") and settings.cookie_domain:
        yield ("cookie_name",), "cannot be set with the cookie prefix __Host-: browsers would reject the cookie"


class CertificateFiles(Settings):
    """One pair of `certificates`."""

    cert: PemOrFile = Field(description="Certificate chain, in PEM.", examples=["fullchain.pem"])
    key: PemOrFile = Field(description="Private key, in PEM.", examples=["privkey.pem"])


def _tls_version(value: object) -> str:
    """Accept a number, because YAML parses `1.3` as one."""
    if (version := str(value)) not in ("1.2", "1.3"):
        raise ValueError("must be 1.2 or 1.3")
    return version


class CommonSettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (_check_cookie_prefix, _check_workers)

    services: Annotated[str, choice_type("all", "authenticate", "authorize", "databroker", "proxy")] = Field(
        "all", description="Services that this process runs: all, or one of a split deployment.", examples=["all"]
    )
    workers: Annotated[
        int | str,
        FieldType("whole number or `auto`", worker_count, {"type": ["integer", "string"], "pattern": r"^\s*[0-9]+\s*$|^auto$"}),
    ] = Field(
        1,
        description="Number of processes that serve `address`; `auto` is one per available core. Only `gate run` starts workers.",
        examples=[4, "auto"],
    )
    address: Address = Field(HostPort("", 443), description="Address that accepts HTTP and HTTPS requests.", examples=[":443"])
    http_redirect_addr: Address | None = Field(
        None,
        description="Address of a plain-HTTP listener that redirects requests to HTTPS.",
        examples=[":80"],
    )
    use_proxy_protocol: Bool = Field(
        False,
        description="Requires the PROXY protocol (version 1 or 2) on every connection to `address`, and takes the client address from it.",
        examples=[True],
    )
    insecure_server: Bool = Field(
        False, description="Serves plain HTTP on `address`. Use it only behind a load balancer that terminates TLS.", examples=[True]
    )
    certificate: Base64 | None = Field(
        None, description="Certificate chain for HTTPS and gRPC, in PEM.", examples=["BASE64-OF-fullchain.pem"]
    )
    certificate_key: Base64Secret | None = Field(
        None, description="Private key of `certificate`, in PEM.", examples=["BASE64-OF-privkey.pem"]
    )
    certificate_file: File | None = Field(None, description="File form of `certificate`, in PEM.", examples=["fullchain.pem"])
    certificate_key_file: File | None = Field(None, description="File form of `certificate_key`, in PEM.", examples=["privkey.pem"])
    certificates: tuple[CertificateFiles, ...] = Field(
        (),
        description="Additional certificates with their keys. The pair is selected by SNI.",
        examples=[[{"cert": "fullchain.pem", "key": "privkey.pem"}]],
    )
    certificate_authority_file: File | None = Field(None, description="File form of `certificate_authority`, in PEM.", examples=["ca.pem"])
    certificate_authority: Annotated[Base64 | None, value_or_file("certificate_authority_file")] = Field(
        None,
        validate_default=True,
        description="CA certificates, intermediates included, for connections to the identity provider and between services, in "
        "PEM. Needed for a private CA.",
        examples=["BASE64-OF-ca.pem"],
    )
    tls_min_version: Annotated[str, FieldType("string", _tls_version, {"enum": ["1.2", "1.3", 1.2, 1.3]})] = Field(
        "1.2", description="Minimum TLS version that clients may negotiate.", examples=["1.3"]
    )
    client_ca_file: File | None = Field(None, description="File form of `client_ca`, in PEM.", examples=["ca.pem"])
    client_ca: Annotated[Base64 | None, value_or_file("client_ca_file")] = Field(
        None,
        validate_default=True,
        description="CA certificates that must have issued the client certificate on every route, in PEM. Empty requests none.",
        examples=["BASE64-OF-ca.pem"],
    )
    cookie_name: Annotated[Text, AfterValidator(_cookie_name)] = Field(
        "_gate", description="Name of the session cookie, and prefix of gate's other cookies.", examples=["_gate"]
    )
    cookie_secret_file: File | None = file_form("cookie_secret", "cookie-secret", has_lines=True)
    cookie_secret: KeyRing = Field(
        description="Key that encrypts session cookies: base64 of 32 random bytes. To rotate, write a list: the first key "
        "encrypts, every key decrypts.",
        examples=["PUT-A-SECRET-HERE"],
        json_schema_extra={"when_missing": KEY_GENERATION_HINT},
    )
    cookie_domain: Annotated[Text, AfterValidator(lambda text: canonical_host(text.removeprefix(".")))] | None = Field(
        None,
        description="Domain attribute of the session cookie. Empty keeps a separate cookie per host, which is safer.",
        examples=["example.com"],
    )
    cookie_secure: Bool = Field(
        True,
        description="Sets the `Secure` attribute: browsers send the cookie over HTTPS only. `false` can expose the cookie on the network.",
        examples=[True],
    )
    cookie_http_only: Bool = Field(
        True,
        description="Sets the `HttpOnly` attribute, which hides the cookie from scripts. `false` lets a malicious script steal sessions.",
        examples=[True],
    )
    cookie_expire: PositiveDuration = Field(
        timedelta(hours=14), description="Lifetime of a session, after which the user signs in again.", examples=["1h45m"]
    )
    time_zone: Annotated[Text, AfterValidator(_time_zone)] = Field(
        "UTC",
        description="IANA time zone of times on pages for browsers without scripts. Other browsers use their own. Logs, JSON and "
        "CSV use UTC.",
        examples=["Europe/Berlin"],
    )
    support_contact: Contact | None = Field(
        None,
        description="E-mail address or URL of your help desk, on error pages and in the portal.",
        examples=["help@example.com"],
    )
    brand: Annotated[BrandSettings | None, BeforeValidator(parse_brand)] = Field(
        None,
        description="Name, logo and color of gate's pages.",
        examples=[{"name": "Example Corp", "logo": "logo.svg", "accent": "#0b6e4f"}],
    )
    gate_debug: Bool = Field(
        False, description="Writes readable, colored log lines instead of JSON. They can contain sensitive data.", examples=[True]
    )
    log_level: Annotated[str, choice_type(*LOG_LEVELS)] = Field("info", description="Minimum level of log events.", examples=["warn"])
    proxy_log_level: Annotated[Annotated[str, choice_type(*LOG_LEVELS)], WrapValidator(_default_log_level)] = Field(
        None,
        validate_default=True,
        description="Minimum level of access log events.",
        examples=["info"],
        json_schema_extra={"when_unset": "the value of `log_level`"},
    )
    metrics_address: Address | None = Field(
        None,
        description="Address that serves Prometheus metrics at `/metrics`, without TLS and authentication. The metrics contain "
        "host names and addresses of upstreams.",
        examples=["127.0.0.1:9090"],
    )
    metrics_per_route: Bool | None = Field(
        None,
        description="Exports metrics per route: about 50 time series each.",
        examples=[True],
        json_schema_extra={"when_unset": f"true with up to {MAX_ROUTES_WITH_METRICS} routes, else false"},
    )
    timeout_read: Duration = Field(
        timedelta(seconds=30),
        description="Maximum time to receive a request head, and maximum gap in a request body. `0` disables the limit.",
        examples=["30s"],
    )
    timeout_write: Duration = Field(
        timedelta(0), description="Maximum time to send a complete response. `0` disables the limit.", examples=["1m"]
    )
    timeout_idle: Duration = Field(
        timedelta(minutes=5),
        description="Maximum time that a connection may be idle, or a client may stop reading a response. `0` disables the limit.",
        examples=["5m"],
    )
    shutdown_delay: Duration = Field(
        timedelta(0),
        description="Time after SIGTERM during which gate still accepts requests while `/readyz` returns 503, so that a load "
        "balancer can remove this process.",
        examples=["10s"],
    )
    shared_secret_file: File | None = file_form("shared_secret", "shared-secret", has_lines=True)
    shared_secret: KeyRing = Field(
        description="Key that authenticates gate's services to each other and encrypts stored records: base64 of 32 random bytes, "
        "or a list as for `cookie_secret`.",
        examples=["PUT-ANOTHER-SECRET-HERE"],
        json_schema_extra={"when_missing": KEY_GENERATION_HINT},
    )
    data_dir: FilePath = Field(
        description="Directory for the SQLite database and other files of gate, with mode 0700.",
        examples=["/var/lib/gate"],
        json_schema_extra={"when_unset": "`$XDG_DATA_HOME/gate`, else `$STATE_DIRECTORY` (systemd), else `~/.local/share/gate`"},
    )
