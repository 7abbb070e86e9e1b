"""Settings of certificates that gate obtains itself (ACME, RFC 8555), and the hosts that need one."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator, Field

from config.fields.basic_types import Base64, Bool, File, FilePath, Secret, Text, WebUrl, file_form, value_or_file
from config.fields.pem import certificate_names, covers
from config.validation import Finding, Rule, Settings
from foundation.values import SecretText, Url, parse_url

if TYPE_CHECKING:
    from config.options import Options

LETS_ENCRYPT = parse_url("https://acme-v02.api.letsencrypt.org/directory")
LETS_ENCRYPT_STAGING = parse_url("https://acme-staging-v02.api.letsencrypt.org/directory")

_NAME = re.compile(r"(?=.*[a-z])[a-z0-9-]+(?:\.[a-z0-9-]+)*")  # a DNS name, not an address or a wildcard
# RFC 6761, 6762, 8375, and ICANN's top-level domain for private use: public CAs issue no certificates for these.
_PRIVATE = re.compile(r"(?:.*\.)?(?:localhost|local|test|example|invalid|internal|lan|onion|home\.arpa)|[^.]*")
_MAC_KEY = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")


def _mac_key(key: SecretText) -> SecretText:
    if _MAC_KEY.fullmatch(key.reveal()) is None:
        raise ValueError("must be base64 as issued by the CA")
    return key


def _check_acme_ca(settings: "Options") -> Iterator[Finding]:
    if settings.autocert_ca is not None:
        if settings.autocert_use_staging:
            yield (
                ("autocert_use_staging",),
                "selects the staging environment of Let's Encrypt, and autocert_ca another CA. Set only one of them",
            )
        if settings.autocert_ca.scheme != "https":
            yield ("autocert_ca",), "must be https (RFC 8555 6.1)"
    if bool(settings.autocert_eab_key_id) != bool(settings.autocert_eab_mac_key):
        present, absent = ("autocert_eab_key_id", "autocert_eab_mac_key")
        if not settings.autocert_eab_key_id:
            present, absent = absent, present
        yield (present,), f"needs {absent} too"


def _check_acme_reachable(settings: "Options") -> Iterator[Finding]:
    if not settings.autocert:
        return
    if settings.insecure_server:
        yield ("autocert",), "requires TLS terminated by gate; not available with insecure_server"
    elif settings.services in ("authorize", "databroker"):
        yield ("autocert",), f"requires a listener for browsers, which services: {settings.services} does not have"


class AutocertSettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (_check_acme_ca, _check_acme_reachable)

    autocert: Bool = Field(
        False,
        description="Obtains and renews certificates for hosts of gate and of routes without a certificate, except wildcards, from "
        "an ACME authority. Staples OCSP responses to all certificates. You accept the authority's terms of service.",
        examples=[True],
    )
    autocert_dir: FilePath | None = Field(
        None,
        description="Directory for the certificates and the account key, shared between services. Only the owner can read the files.",
        examples=["/data/autocert"],
        json_schema_extra={"when_unset": "the value of `data_dir`"},
    )
    autocert_must_staple: Bool = Field(
        False,
        description="Requests new certificates with the Must-Staple extension, which are valid only with a stapled OCSP response.",
        examples=[True],
    )
    autocert_use_staging: Bool = Field(
        False,
        description="Uses the staging environment of Let's Encrypt for tests. Browsers do not trust its certificates.",
        examples=[True],
    )
    autocert_ca: WebUrl | None = Field(
        None,
        description="ACME directory URL.",
        examples=["https://ca.internal.example.com/acme/directory"],
        json_schema_extra={"when_unset": "Let's Encrypt"},
    )
    autocert_trusted_ca_file: File | None = Field(None, description="File form of `autocert_trusted_ca`, in PEM.", examples=["ca.pem"])
    autocert_trusted_ca: Annotated[Base64 | None, value_or_file("autocert_trusted_ca_file")] = Field(
        None,
        validate_default=True,
        description="CA certificates for the ACME server's own certificate, in PEM.",
        examples=["BASE64-OF-ca.pem"],
        json_schema_extra={"when_unset": "public CAs"},
    )
    autocert_email: Text | None = Field(
        None, description="Contact e-mail address for the ACME account.", examples=["operators@example.com"]
    )
    autocert_eab_key_id: Text | None = Field(None, description="Key id for external account binding (RFC 8555 7.3.4).", examples=["kid-1"])
    autocert_eab_mac_key_file: File | None = file_form("autocert_eab_mac_key", "eab-mac-key")
    autocert_eab_mac_key: Annotated[Secret, AfterValidator(_mac_key)] | None = Field(
        None, description="MAC key for external account binding, base64 as issued by the authority.", examples=["BASE64-OF-THE-KEY"]
    )


def acme_directory_url(settings: "Options") -> Url:
    """Return the URL of the ACME directory."""
    return settings.autocert_ca or (LETS_ENCRYPT_STAGING if settings.autocert_use_staging else LETS_ENCRYPT)


def acme_hosts(settings: "Options") -> tuple[str, ...]:
    """Return the hosts of this process that no configured certificate covers, gate's own first.

    Only hosts that the CA can validate by a challenge that gate supports are included.
    """
    return tuple(
        host
        for host in dict.fromkeys(served_hosts(settings))
        if ineligible_reason(host, settings) is None and not is_covered(host, settings)
    )


def is_covered(host: str, settings: "Options") -> bool:
    return covers((name for pair in settings.certificate_pairs for name in certificate_names(pair.certificate)), host)


def ineligible_reason(host: str, settings: "Options") -> str | None:
    """Return the reason why this host cannot get a certificate; None if it can."""
    if host.startswith("*."):
        return "has a wildcard, which a CA validates by DNS only"  # RFC 8555 7.1.3, 8.4
    if _NAME.fullmatch(host) is None:
        return "is an address instead of a name"
    if settings.autocert_ca is None and _PRIVATE.fullmatch(host):
        return "is a name that no public CA issues certificates for"
    return None


def served_hosts(settings: "Options") -> Iterator[str]:
    """Yield the hosts of this process, wildcards as configured; some may occur several times."""
    if settings.services in ("all", "authenticate"):
        yield settings.authenticate_service_url.host
    if settings.services in ("all", "proxy"):
        if settings.forward_auth_url is not None:
            yield settings.forward_auth_url.host
        for route in settings.policy:
            yield route.from_.host
