"""Discovery document (OpenID Connect Discovery 1.0), accepted only if it names the configured issuer."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from authenticate.provider.provider_http import ProviderHttp
from authenticate.provider.single_flight_cache import SingleFlightCache
from authenticate.provider.tokens.key_set import ALGORITHMS
from foundation.errors import ProviderError
from foundation.values import is_encrypted_or_local

PATH = "/.well-known/openid-configuration"
LIFETIME = 3600.0
MAX_STALE = 6 * 3600.0  # seconds; endpoints rarely change, and an unavailable document must not stop sign-ins


@dataclass(frozen=True, slots=True)
class DiscoveryDocument:
    """Provider metadata (OpenID Connect Discovery 1.0, section 3). A missing endpoint is "".

    `algorithms` never contains symmetric algorithms or `none`, even if the provider offers them.
    """

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    algorithms: frozenset[str]
    userinfo_algorithms: frozenset[str] = frozenset()  # empty if it supports none that gate does
    userinfo_endpoint: str = ""
    revocation_endpoint: str = ""
    end_session_endpoint: str = ""
    par_endpoint: str = ""  # RFC 9126
    scopes: frozenset[str] = frozenset()  # empty if not reported
    token_auth_methods: frozenset[str] = frozenset({"client_secret_basic"})
    sends_iss: bool = False  # RFC 9207: the callback always carries `iss`
    may_return_email_verified: bool = True  # False only if `claims_supported` excludes it
    supports_claims_parameter: bool = False  # the parameter `claims` of a request (OpenID Connect Core 5.5)


def cached_discovery(fetch: Callable[[], Awaitable[DiscoveryDocument]], clock: Callable[[], float]) -> SingleFlightCache[DiscoveryDocument]:
    return SingleFlightCache(fetch, lifetime=LIFETIME, stale=MAX_STALE, clock=clock)


async def fetch(http: ProviderHttp, url: str, issuer: str) -> DiscoveryDocument:
    """Fetch the document of the provider at `url`, which must name `issuer`. Raises ProviderError."""
    answer = await http.get(url.rstrip("/") + PATH)
    if answer.status != 200:
        raise ProviderError(f"the provider's discovery document returned status {answer.status}")
    return parse(answer.json(), issuer)


def parse(document: Mapping[str, Any], issuer: str) -> DiscoveryDocument:
    """Return the metadata. Raises ProviderError if it has another issuer, lacks what the code flow needs, or an endpoint is not https."""
    named = document.get("issuer")
    if named != issuer:
        raise ProviderError(f"the provider's issuer is {named!r}, but idp_provider_url is {issuer!r}{_hint(named, issuer)}")
    algorithms = _names(document.get("id_token_signing_alg_values_supported", ["RS256"])) & ALGORITHMS.keys()
    if not algorithms:
        raise ProviderError(f"the provider signs ID tokens with none of {', '.join(ALGORITHMS)}")
    return DiscoveryDocument(
        issuer=issuer,
        authorization_endpoint=_endpoint(document, issuer, "authorization_endpoint"),
        token_endpoint=_endpoint(document, issuer, "token_endpoint"),
        jwks_uri=_endpoint(document, issuer, "jwks_uri"),
        algorithms=algorithms,
        userinfo_algorithms=_names(document.get("userinfo_signing_alg_values_supported")) & ALGORITHMS.keys(),
        userinfo_endpoint=_endpoint(document, issuer, "userinfo_endpoint", required=False),
        revocation_endpoint=_endpoint(document, issuer, "revocation_endpoint", required=False),
        end_session_endpoint=_endpoint(document, issuer, "end_session_endpoint", required=False),
        par_endpoint=_par_endpoint(document, issuer),
        scopes=_names(document.get("scopes_supported")),
        token_auth_methods=_names(document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])),
        sends_iss=document.get("authorization_response_iss_parameter_supported") is True,
        may_return_email_verified=_may_return(document.get("claims_supported"), "email_verified"),
        supports_claims_parameter=document.get("claims_parameter_supported") is True,
    )


def _hint(named: object, issuer: str) -> str:
    if isinstance(named, str) and named.rstrip("/") == issuer.rstrip("/"):
        return ". They differ only in the final slash: write idp_provider_url exactly like the issuer"
    return ""


def _names(value: object) -> frozenset[str]:
    return frozenset(name for name in value if isinstance(name, str)) if isinstance(value, list) else frozenset()


def _par_endpoint(document: Mapping[str, Any], issuer: str) -> str:
    """Return the endpoint for pushed requests (RFC 9126 section 5), "" if there is none. Raises ProviderError if it is required."""
    name = "pushed_authorization_request_endpoint"
    return _endpoint(document, issuer, name, required=document.get("require_pushed_authorization_requests") is True)


def _may_return(claims_supported: object, name: str) -> bool:
    """Return whether the provider may return the claim: only a list without it excludes that."""
    return not isinstance(claims_supported, list) or not claims_supported or name in claims_supported


def _endpoint(document: Mapping[str, Any], issuer: str, key: str, *, required: bool = True) -> str:
    url = document.get(key)
    if not url and not required:
        return ""
    if not isinstance(url, str) or not is_secure_url(url, issuer):
        raise ProviderError(f"the provider's {key} is missing, or is not https")
    return url


def is_secure_url(url: str, issuer: str) -> bool:
    """Return whether this is an absolute https URL, or (for development) http on a loopback address of an http issuer."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        return False
    return is_encrypted_or_local(parts.scheme, host) and (parts.scheme == "https" or urlsplit(issuer).scheme == "http")
