"""Auth0: plain OpenID Connect; what differs is how its issuers are written (gateproject/config/issuers.py)."""

from authenticate.providers.oidc import OIDCProvider


class Auth0Provider(OIDCProvider):
    pass
