"""Issuers of identity providers: the default of each vendor, and matching of tenants."""

import re

# Vendors with one issuer for all customers.
DEFAULT_URLS = {
    "azure": "https://login.microsoftonline.com/common/v2.0",
    "github": "https://github.com",
    "gitlab": "https://gitlab.com",
    "google": "https://accounts.google.com",
    "onelogin": "https://openid-connect.onelogin.com/oidc",
}
# Placeholder in the discovery document of Microsoft's shared endpoints.
TENANT = "{tenantid}"
_SHARED = re.compile(r"/(?:common|organizations)(?=/|$)")
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def expected_issuer(kind: str, url: str) -> str:
    """Return the issuer that tokens of this kind of provider contain.

    It contains TENANT if the provider has one issuer per tenant.
    """
    match kind:
        case "azure":
            return _SHARED.sub(f"/{TENANT}", url)
        case "auth0":  # its issuers end with a slash, which users omit from the setting
            return url.rstrip("/") + "/"
        case "github":  # it signs no tokens; the path distinguishes it from another provider at the same URL
            return url.rstrip("/") + "/login/oauth"
        case _:
            return url


def is_tenant(name: object) -> bool:
    return isinstance(name, str) and bool(_GUID.fullmatch(name))


def matches_issuer(issuer: str, named: str) -> bool:
    """Return whether `named` is the configured issuer or one of its tenants."""
    before, open_tenant, after = issuer.partition(TENANT)
    if not open_tenant:
        return named == issuer
    return named.startswith(before) and named.endswith(after) and is_tenant(named[len(before) : len(named) - len(after)])


def applies_to_issuer(recorded_issuer: str, issuer: str) -> bool:
    """Return whether a record by `recorded_issuer` applies to users of `issuer`.

    An empty `recorded_issuer` means the operator, or a release that did not record it.
    """
    return not recorded_issuer or recorded_issuer == issuer or matches_issuer(recorded_issuer, issuer)
