"""Okta: plain OpenID Connect; the URL is the organisation's, or that of one of its authorization servers."""

from authenticate.provider.kinds.oidc import OIDCProvider


class OktaProvider(OIDCProvider):
    pass
