"""Auth0: its issuers end with a slash, which nobody writes."""

from authenticate.providers.oidc import OIDCProvider


class Auth0Provider(OIDCProvider):
    @property
    def issuer(self) -> str:
        return self.url.rstrip("/") + "/"
