"""Options: all settings as one frozen value, and the rules that span their groups."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cached_property
from typing import ClassVar

from pydantic import Field

from config import removed_keys
from config.fields.pem import check_ca_certificates, check_key_matches, check_signing_key
from config.provider_config import ProviderConfig, build_providers
from config.routes.route import Route
from config.settings.authenticate_settings import AuthenticateSettings
from config.settings.authorize_settings import AuthorizeSettings
from config.settings.autocert_settings import AutocertSettings
from config.settings.common_settings import AUTO, MAX_ROUTES_WITH_METRICS, CommonSettings
from config.settings.databroker_settings import DatabrokerSettings
from config.settings.directory_settings import DirectorySettings
from config.settings.group_sources import check_group_source
from config.settings.identity_providers import IdentityProviderSettings
from config.settings.oauth_settings import OAuthSettings
from config.settings.proxy_settings import ProxySettings
from config.settings.rpc_settings import RpcSettings
from config.settings.tracing_settings import TracingSettings
from config.validation import Finding, Rule
from foundation.system.cpus import available_cpus
from foundation.values import CertificatePair, SecretBytes, WatchedFile


def _certificate_pairs(settings: "Options") -> Iterator[CertificatePair]:
    """Yield the certificates of all forms; the forms are additive."""
    if settings.certificate and settings.certificate_key:
        yield CertificatePair(settings.certificate, settings.certificate_key, "certificate")
    if settings.certificate_file and settings.certificate_key_file:
        key = SecretBytes(settings.certificate_key_file.content)
        yield CertificatePair(settings.certificate_file.content, key, "certificate_file")
    for index, pair in enumerate(settings.certificates):
        yield CertificatePair(_content(pair.cert), SecretBytes(_content(pair.key)), f"certificates[{index}]")


def _content(pem: SecretBytes | WatchedFile) -> bytes:
    return pem.content if isinstance(pem, WatchedFile) else pem.reveal()


def _check_tls_configured(settings: "Options") -> Iterator[Finding]:
    forms = (settings.certificate, settings.certificate_key, settings.certificate_file, settings.certificate_key_file)
    if settings.services in ("authorize", "databroker"):
        if not settings.grpc_insecure and not settings.certificates and not any(forms):
            yield ("certificate",), "gRPC requires a certificate. Set certificate and certificate_key, their _file forms, or certificates"
    elif (
        settings.autocert
        and not settings.grpc_insecure
        and settings.grpc_address is not None
        and not settings.certificates
        and not any(forms)
    ):
        yield (
            ("autocert",),
            "is for browsers only, and gRPC requires a certificate. Set certificate_file, or grpc_insecure on a safe network",
        )
    elif not settings.insecure_server and not settings.autocert and not settings.certificates and not any(forms):
        yield (
            ("certificate",),
            (
                "a certificate is required. Set certificate and certificate_key, their _file forms, certificates, or "
                "autocert: true; or set insecure_server: true behind a proxy that terminates TLS"
            ),
        )


def _check_pairs_complete(settings: "Options") -> Iterator[Finding]:
    for certificate, key in (("certificate", "certificate_key"), ("certificate_file", "certificate_key_file")):
        if bool(getattr(settings, certificate)) != bool(getattr(settings, key)):
            present, absent = (certificate, key) if getattr(settings, certificate) else (key, certificate)
            yield (present,), f"needs {absent} too"


def _check_pairs_match(settings: "Options") -> Iterator[Finding]:
    for pair in _certificate_pairs(settings):
        try:
            check_key_matches(pair.certificate, pair.key)
        except ValueError as error:
            yield (pair.source,), str(error)


def _check_signing_key(settings: "Options") -> Iterator[Finding]:
    if settings.signing_key is None:
        return
    try:
        check_signing_key(settings.signing_key, settings.signing_key_algorithm)
    except ValueError as error:
        yield ("signing_key_file" if settings.signing_key_file else "signing_key",), str(error)


def _check_ca_settings(settings: "Options") -> Iterator[Finding]:
    yield from _invalid_cas(settings, ("certificate_authority", "client_ca", "autocert_trusted_ca"), ())
    for index, route in enumerate(settings.policy):
        yield from _invalid_cas(route, ("tls_custom_ca", "tls_downstream_client_ca"), ("policy", index))


def _invalid_cas(settings: "Options | Route", keys: tuple[str, ...], place: tuple[str | int, ...]) -> Iterator[Finding]:
    for key in keys:
        try:
            if (pem := getattr(settings, key)) is not None:
                check_ca_certificates(pem)
        except ValueError as error:
            yield (*place, f"{key}_file" if getattr(settings, f"{key}_file") else key), str(error)


def _check_client_certificates(settings: "Options") -> Iterator[Finding]:
    """If another proxy terminates TLS, gate receives no client certificate, and a route that requires one denies every request."""
    if settings.ext_authz_tokens:
        return  # an Envoy that terminates TLS reports the client certificate
    needs_tls = "requires TLS terminated by gate; not available with insecure_server"
    if settings.insecure_server and settings.client_ca is not None:
        yield ("client_ca_file" if settings.client_ca_file else "client_ca",), needs_tls
    for index, route in enumerate(settings.policy):
        route_ca = route.tls_downstream_client_ca
        if settings.insecure_server and route_ca is not None:
            key = "tls_downstream_client_ca_file" if route.tls_downstream_client_ca_file else "tls_downstream_client_ca"
            yield ("policy", index, key), needs_tls
        if route_ca is None and settings.client_ca is None and "client_certificate" in route.criteria:
            yield ("policy", index, "policy"), "uses client_certificate, which requires client_ca or tls_downstream_client_ca"


def _check_route_timeouts(settings: "Options") -> Iterator[Finding]:
    limit = settings.timeout_write
    for index, route in enumerate(settings.policy) if limit else ():
        if route.timeout is not None and (route.timeout > limit or route.timeout == timedelta(0)):
            yield ("policy", index, "timeout"), "is more than timeout_write, which limits every response (0 disables the limit)"


class Options(
    DatabrokerSettings,
    ProxySettings,
    DirectorySettings,
    IdentityProviderSettings,
    AuthorizeSettings,
    AuthenticateSettings,
    OAuthSettings,
    RpcSettings,
    AutocertSettings,
    TracingSettings,
    CommonSettings,
):
    """All settings, by their keys in the configuration file."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *CommonSettings.RULES,
        *AutocertSettings.RULES,
        *AuthenticateSettings.RULES,
        *ProxySettings.RULES,
        *DatabrokerSettings.RULES,
        *RpcSettings.RULES,
        *TracingSettings.RULES,
        *AuthorizeSettings.RULES,
        *DirectorySettings.RULES,
        *IdentityProviderSettings.RULES,
        *OAuthSettings.RULES,
        _check_tls_configured,
        _check_pairs_complete,
        _check_pairs_match,
        _check_signing_key,
        _check_ca_settings,
        _check_client_certificates,
        _check_route_timeouts,
        check_group_source,
    )
    REMOVED: ClassVar[dict[str, str]] = removed_keys.SETTINGS
    ELSEWHERE: ClassVar[dict[str, str]] = {
        **dict.fromkeys(Route.attributes(), "is a route key. Move it into an entry of `policy`"),
        "routes": "is named `policy` in gate. Use the same list under that name (gate import converts a Pomerium file)",
    }

    policy: tuple[Route, ...] = Field(
        (),
        description="The routes, in the order in which they are tried; also as base64 of a YAML or JSON list.",
        examples=[
            [{"from": "https://app.example.com", "to": "http://127.0.0.1:8001", "allow_any_authenticated_user": True}],
            "W3tmcm9tOiBodHRwczovL2EuZXhhbXBsZS5jb20sIHRvOiBodHRwOi8vMTI3LjAuMC4xOjgwMDF9XQ==",
        ],
    )

    def only_routes_differ(self, other: "Options") -> bool:
        return all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields if name != "policy")

    @property
    def has_admin_reader(self) -> bool:
        """Whether this process makes decisions and shares a database with the admin.

        A separate authorize service does so if `database_url` is set.
        """
        return self.services == "all" or (self.services == "authorize" and "database_url" in self.model_fields_set)

    @cached_property
    def uses_temporary_access(self) -> bool:
        """Whether the policy of any route uses temporary access."""
        return any(route.uses_temporary_access for route in self.policy)

    @cached_property
    def providers(self) -> Mapping[str, ProviderConfig]:
        """Identity providers by id."""
        return build_providers(self)

    def record_id_prefix_for(self, user_id: str) -> str:
        """Return the prefix of the directory record ids of this user's provider."""
        provider = self.providers.get(user_id.partition("/")[0])
        return provider.record_id_prefix if provider is not None else ""

    @property
    def first_provider(self) -> ProviderConfig:
        """The first provider. Use it only for what exists with a single provider: the directory, and users pushed over SCIM."""
        return next(iter(self.providers.values()))

    @cached_property
    def process_count(self) -> int:
        """Number of processes that serve `address`: `workers` as a number."""
        return available_cpus() if self.workers == AUTO else int(self.workers)

    @property
    def has_route_metrics(self) -> bool:
        """Whether per-route metrics are exported."""
        if self.metrics_address is None:
            return False
        return len(self.policy) <= MAX_ROUTES_WITH_METRICS if self.metrics_per_route is None else self.metrics_per_route

    @property
    def service_label(self) -> str:
        """Service name in metric labels."""
        return "gate" if self.services == "all" else f"gate-{self.services}"

    @cached_property
    def certificate_pairs(self) -> tuple[CertificatePair, ...]:
        return tuple(_certificate_pairs(self))
