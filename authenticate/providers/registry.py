"""Which `idp_provider` is which: a written list, and the configuration accepts no other name."""

from authenticate.providers.base import Provider
from authenticate.providers.oidc import OIDCProvider
from gateproject.config.options import Options

PROVIDERS = {"oidc": OIDCProvider.from_options}


def provider_of(options: Options) -> Provider:
    return PROVIDERS[options.idp_provider](options)
