"""Auth0: plain OpenID Connect; what differs is how its issuers are written (config/issuers.py)."""

from authenticate.provider.kinds.oidc import OIDCProvider


class Auth0Provider(OIDCProvider):
    pass
