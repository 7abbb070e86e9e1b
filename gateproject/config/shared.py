"""The settings that concern every part of the service: addresses, certificates, cookies, logs."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, PlainValidator, WrapValidator

from gateproject.config.fields import (
    HOW_TO_MAKE_ONE,
    Address,
    Base64,
    Base64Secret,
    Bool,
    Duration,
    File,
    FilePath,
    KeyRing,
    PositiveDuration,
    Text,
    or_file,
)
from gateproject.config.headers import is_token
from gateproject.config.types import HostPort, canonical_host
from gateproject.config.unbuilt import VALUES
from gateproject.config.validation import Finding, Rule, Settings

LOG_LEVELS = ("debug", "info", "warn", "error")


def one_of(setting: str, *choices: str) -> PlainValidator:
    """One of `choices`; a value of the specification that is not built says so."""

    def choose(value: Any) -> str:
        if value in choices:
            return str(value)
        if value in VALUES.get(setting, ()):
            raise ValueError(f"{value} is specified but not available in this release")
        known = choices + VALUES.get(setting, ())
        raise ValueError(f"must be one of {', '.join(known)}")

    return PlainValidator(choose)


def _else_log_level(value: Any, handler: Any, info: Any) -> Any:
    return (info.data or {}).get("log_level") if value is None else handler(value)


def _cookie_name(name: str) -> str:
    if not is_token(name):
        raise ValueError("must be a cookie name: letters, digits, hyphens and underscores (RFC 6265 4.1.1)")
    return name


def _cookie_prefix(settings: Any) -> Iterator[Finding]:
    # Browsers compare the prefixes without regard to case, and drop a cookie that breaks their promise.
    name = settings.cookie_name.lower()
    if name.startswith(("__host-", "__secure-")) and not settings.cookie_secure:
        yield ("cookie_name",), "its prefix requires cookie_secure: browsers would drop the cookie"
    if name.startswith("__host-") and settings.cookie_domain:
        yield ("cookie_name",), "the prefix __Host- forbids cookie_domain: browsers would drop the cookie"


class CertificateFiles(Settings):
    """One pair of `certificates`."""

    cert: File
    key: File


class SharedSettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (_cookie_prefix,)

    services: Annotated[str, one_of("services", "all")] = Field("all", description="Which services this process runs.")
    address: Address = Field(HostPort("", 443), description="Where HTTP requests are served.")
    insecure_server: Bool = Field(False, description="Runs without transport encryption, behind something that ends TLS.")
    certificate: Base64 | None = Field(None, description="Certificate chain for HTTP, base64 of PEM.")
    certificate_key: Base64Secret | None = Field(None, description="The certificate's private key, base64 of PEM.")
    certificate_file: File | None = Field(None, description="File form of `certificate`.")
    certificate_key_file: File | None = Field(None, description="File form of `certificate_key`.")
    certificates: tuple[CertificateFiles, ...] = Field((), description="Several pairs at once, as files.")
    certificate_authority_file: File | None = Field(None, description="File form of `certificate_authority`.")
    certificate_authority: Annotated[Base64 | None, or_file("certificate_authority_file")] = Field(
        None, validate_default=True, description="CA for the provider and internal traffic with custom certificates."
    )
    cookie_name: Annotated[Text, AfterValidator(_cookie_name)] = Field("_gate", description="Session cookie name.")
    cookie_secret: KeyRing = Field(
        description="Encrypts and signs session cookies: base64 of 32 bytes, or a list whose first key seals and all open.",
        json_schema_extra={"when_missing": HOW_TO_MAKE_ONE},
    )
    cookie_domain: Annotated[Text, AfterValidator(lambda text: canonical_host(text.removeprefix(".")))] | None = Field(
        None, description="Scope of session cookies."
    )
    cookie_secure: Bool = Field(True, description="Browsers send the cookie only over HTTPS.")
    cookie_http_only: Bool = Field(True, description="Hides the cookie from browser scripts.")
    cookie_expire: PositiveDuration = Field(timedelta(hours=14), description="Lifetime of a session.")
    gate_debug: Bool = Field(False, description="Coloured, human-readable logs.")
    log_level: Annotated[str, one_of("log_level", *LOG_LEVELS)] = Field("info", description="Logs at this level and above.")
    proxy_log_level: Annotated[Annotated[str, one_of("log_level", *LOG_LEVELS)], WrapValidator(_else_log_level)] = Field(
        None, validate_default=True, description="The same for proxy access logs; default is log_level."
    )
    timeout_read: Duration = Field(timedelta(seconds=30), description="Bounds the request head and the gaps in its body.")
    timeout_write: Duration = Field(timedelta(0), description="Bounds a whole response; 0 is no bound.")
    timeout_idle: Duration = Field(timedelta(minutes=5), description="Bounds how long an idle connection stays open.")
    shared_secret: KeyRing = Field(
        description="Authenticates requests between services and seals records: base64 of 32 bytes, or a list as `cookie_secret`.",
        json_schema_extra={"when_missing": HOW_TO_MAKE_ONE},
    )
    data_dir: FilePath = Field(description="Where the database and other files of ours live; mode 0700.")
