"""Settings that concern every part of the service: addresses, certificates, cookies, logs."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, WrapValidator

from config.settings.brand import BrandKeys, written_keys
from config.types.contact import Contact
from config.types.fields import (
    HOW_TO_MAKE_ONE,
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
    or_file,
    whole_number,
)
from config.types.headers import is_token
from config.types.reader import SettingReader, one_of
from config.validation import Finding, Rule, Settings
from foundation.values import HostPort, canonical_host

MOST_MEASURED_ROUTES = 500
MOST_WORKERS = 64
AUTO = "auto"
LOG_LEVELS = ("debug", "info", "warn", "error")


def _else_log_level(value: Any, handler: Any, info: Any) -> Any:
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
    """Number of processes, or `auto`: as many as this one may use cores, found out at the start."""
    if value == AUTO:
        return AUTO
    try:
        found = whole_number(value)
    except ValueError:
        found = 0
    if not 1 <= found <= MOST_WORKERS:
        raise ValueError(f"must be a whole number from 1 to {MOST_WORKERS}, or {AUTO}")
    return found


def _workers_carry(settings: Any) -> Iterator[Finding]:
    if settings.workers == 1:
        return
    if settings.data_plane == "envoy":
        yield ("workers",), "needs data_plane: embedded; Envoy uses all cores by itself"
    if settings.services in ("authorize", "databroker"):
        yield ("workers",), f"is for services that people reach; of services: {settings.services} run as many beside each other as you need"


def _cookie_prefix(settings: Any) -> Iterator[Finding]:
    # Browsers compare the prefixes without regard to case, and drop a cookie that breaks their promise.
    name = settings.cookie_name.lower()
    if name.startswith(("__host-", "__secure-")) and not settings.cookie_secure:
        yield ("cookie_name",), "its prefix requires cookie_secure: browsers would drop the cookie"
    if name.startswith("__host-") and settings.cookie_domain:
        yield ("cookie_name",), "the prefix __Host- forbids cookie_domain: browsers would drop the cookie"


class CertificateFiles(Settings):
    """One pair of `certificates`."""

    cert: PemOrFile = Field(description="The certificate chain: a PEM file, or base64 of PEM.", examples=["fullchain.pem"])
    key: PemOrFile = Field(description="The certificate's private key: a PEM file, or base64 of PEM.", examples=["privkey.pem"])


def _tls_version(value: object) -> str:
    """YAML reads `1.3` as a number."""
    if (version := str(value)) not in ("1.2", "1.3"):
        raise ValueError("must be 1.2 or 1.3")
    return version


class SharedSettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (_cookie_prefix, _workers_carry)

    services: Annotated[str, one_of("all", "authenticate", "authorize", "databroker", "proxy")] = Field(
        "all", description="Which services this process runs.", examples=["all"]
    )
    workers: Annotated[
        int | str,
        SettingReader("whole number or `auto`", worker_count, {"type": ["integer", "string"], "pattern": r"^\s*[0-9]+\s*$|^auto$"}),
    ] = Field(
        1,
        description="Processes that serve `address` together, run by `manage.py rungate`; `auto`: one for each core that it may use.",
        examples=[4, "auto"],
    )
    address: Address = Field(HostPort("", 443), description="Where HTTP requests are served; empty means `:443`.", examples=[":443"])
    http_redirect_addr: Address | None = Field(
        None, description="Where http is answered with a redirect to https, to the same host and path.", examples=[":80"]
    )
    use_proxy_protocol: Bool = Field(
        False,
        description="Connections to `address` must begin with the PROXY protocol, version 1 or 2; it says who the client is.",
        examples=[True],
    )
    insecure_server: Bool = Field(False, description="Runs without transport encryption, behind something that ends TLS.", examples=[True])
    certificate: Base64 | None = Field(
        None, description="Certificate chain for HTTP and gRPC, base64 of PEM.", examples=["BASE64-OF-fullchain.pem"]
    )
    certificate_key: Base64Secret | None = Field(
        None, description="The certificate's private key, base64 of PEM.", examples=["BASE64-OF-privkey.pem"]
    )
    certificate_file: File | None = Field(None, description="File form of `certificate`.", examples=["fullchain.pem"])
    certificate_key_file: File | None = Field(None, description="File form of `certificate_key`.", examples=["privkey.pem"])
    certificates: tuple[CertificateFiles, ...] = Field(
        (),
        description="Several pairs at once. All forms of certificates count together.",
        examples=[[{"cert": "fullchain.pem", "key": "privkey.pem"}]],
    )
    certificate_authority_file: File | None = Field(None, description="File form of `certificate_authority`.", examples=["ca.pem"])
    certificate_authority: Annotated[Base64 | None, or_file("certificate_authority_file")] = Field(
        None,
        validate_default=True,
        description="CA for the provider and internal traffic with custom or self-signed certificates, base64 of PEM; with intermediates.",
        examples=["BASE64-OF-ca.pem"],
    )
    tls_min_version: Annotated[str, SettingReader("string", _tls_version, {"enum": ["1.2", "1.3", 1.2, 1.3]})] = Field(
        "1.2", description="The oldest version of TLS that clients may speak: `1.2` or `1.3`.", examples=["1.3"]
    )
    client_ca_file: File | None = Field(None, description="File form of `client_ca`.", examples=["ca.pem"])
    client_ca: Annotated[Base64 | None, or_file("client_ca_file")] = Field(
        None,
        validate_default=True,
        description="CA that client certificates must come from, on every route: base64 of PEM. Unset, none is asked for.",
        examples=["BASE64-OF-ca.pem"],
    )
    cookie_name: Annotated[Text, AfterValidator(_cookie_name)] = Field("_gate", description="Session cookie name.", examples=["_gate"])
    cookie_secret: KeyRing = Field(
        description="Encrypts and signs session cookies: base64 of 32 bytes, or a list whose first key seals and all open.",
        examples=["PUT-A-SECRET-HERE"],
        json_schema_extra={"when_missing": HOW_TO_MAKE_ONE},
    )
    cookie_domain: Annotated[Text, AfterValidator(lambda text: canonical_host(text.removeprefix(".")))] | None = Field(
        None, description="Scope of session cookies; unset, each host has its own.", examples=["example.com"]
    )
    cookie_secure: Bool = Field(True, description="Browsers send the cookie only over HTTPS. False may expose it.", examples=[True])
    cookie_http_only: Bool = Field(
        True, description="Hides the cookie from browser scripts. False lets hostile scripts steal sessions.", examples=[True]
    )
    cookie_expire: PositiveDuration = Field(
        timedelta(hours=14), description="Lifetime of a session; after it people must sign in again.", examples=["1h45m"]
    )
    time_zone: Annotated[Text, AfterValidator(_time_zone)] = Field(
        "UTC",
        description="In which zone pages and the admin show times where the browser runs no scripts, by its IANA name; "
        "where it does, they follow its own zone and language. Logs, JSON and CSV stay in UTC.",
        examples=["Europe/Berlin"],
    )
    support_contact: Contact | None = Field(
        None,
        description="Whom people write to who don't get on: an e-mail address, or the address of a page. Stands on every page that "
        "refuses or fails, and on the portal.",
        examples=["help@example.com"],
    )
    brand: Annotated[BrandKeys | None, BeforeValidator(written_keys)] = Field(
        None,
        description="Name, logo and colour on the pages that people see (docs/portal.md).",
        examples=[{"name": "Example Corp", "logo": "logo.svg", "accent": "#0b6e4f"}],
    )
    gate_debug: Bool = Field(False, description="Coloured, human-readable logs, which may hold sensitive data.", examples=[True])
    log_level: Annotated[str, one_of(*LOG_LEVELS)] = Field("info", description="Logs at this level and above.", examples=["warn"])
    proxy_log_level: Annotated[Annotated[str, one_of(*LOG_LEVELS)], WrapValidator(_else_log_level)] = Field(
        None,
        validate_default=True,
        description="The same for proxy access logs.",
        examples=["info"],
        json_schema_extra={"when_unset": "the value of `log_level`"},
    )
    metrics_address: Address | None = Field(
        None,
        description="Where Prometheus reads `/metrics`, by plain HTTP and without signing in; it tells names and addresses of servers.",
        examples=["127.0.0.1:9090"],
    )
    metrics_per_route: Bool | None = Field(
        None,
        description="Requests, answers, durations, bytes and connections of each route among the metrics: some 50 numbers for each.",
        examples=[True],
        json_schema_extra={"when_unset": f"true with up to {MOST_MEASURED_ROUTES} routes, else false"},
    )
    timeout_read: Duration = Field(
        timedelta(seconds=30), description="Bounds the request's head, and each gap in its body; 0 is no bound.", examples=["30s"]
    )
    timeout_write: Duration = Field(timedelta(0), description="Bounds a whole response; 0 is no bound.", examples=["1m"])
    timeout_idle: Duration = Field(
        timedelta(minutes=5),
        description="Bounds how long an idle connection stays open, and how long a client may not read; 0 is no bound.",
        examples=["5m"],
    )
    shutdown_delay: Duration = Field(
        timedelta(0),
        description="After SIGTERM, how long requests are still taken while `/readyz` says 503, so that a balancer sends nobody here any "
        "more when the port closes.",
        examples=["10s"],
    )
    shared_secret: KeyRing = Field(
        description="Authenticates requests between services and seals records: base64 of 32 bytes, or a list as `cookie_secret`.",
        examples=["PUT-ANOTHER-SECRET-HERE"],
        json_schema_extra={"when_missing": HOW_TO_MAKE_ONE},
    )
    data_dir: FilePath = Field(
        description="Where the database and other files of ours live; mode 0700.",
        examples=["/var/lib/gate"],
        json_schema_extra={"when_unset": "`$XDG_DATA_HOME/gate`, else `$STATE_DIRECTORY` (systemd), else `~/.local/share/gate`"},
    )
