"""Issuer that a configuration names: by default, as its vendor writes it, and whether another name is one of its tenants."""

import re

# Of those whose issuer does not differ from customer to customer.
DEFAULT_URLS = {
    "azure": "https://login.microsoftonline.com/common/v2.0",
    "github": "https://github.com",
    "gitlab": "https://gitlab.com",
    "google": "https://accounts.google.com",
    "onelogin": "https://openid-connect.onelogin.com/oidc",
}
# As the discovery document of Microsoft's shared endpoints writes it.
TENANT = "{tenantid}"
_SHARED = re.compile(r"/(?:common|organizations)(?=/|$)")
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def expected_issuer(kind: str, url: str) -> str:
    """Issuer as it stands in the tokens of this kind of provider; with TENANT where it has one for each tenant."""
    match kind:
        case "azure":
            return _SHARED.sub(f"/{TENANT}", url)
        case "auth0":  # its issuers end with a slash, which nobody writes
            return url.rstrip("/") + "/"
        case "github":  # it signs no tokens; by this it is told from another server
            return url.rstrip("/") + "/login/oauth"
        case _:
            return url


def is_tenant(name: object) -> bool:
    return isinstance(name, str) and bool(_GUID.fullmatch(name))


def matches_issuer(issuer: str, named: str) -> bool:
    """Whether `named` is the configured issuer, or one of its tenants."""
    before, open_tenant, after = issuer.partition(TENANT)
    if not open_tenant:
        return named == issuer
    return named.startswith(before) and named.endswith(after) and is_tenant(named[len(before) : len(named) - len(after)])


def applies_to_issuer(said_by: str, issuer: str) -> bool:
    """Whether what was said by `said_by` holds of people of `issuer`.  "" is the operator, or a release that noted nobody."""
    return not said_by or said_by == issuer or matches_issuer(said_by, issuer)
