"""Providers of a route: whose users it accepts, and whether its upstream receives tokens of the provider."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import Field

from config.fields.basic_types import Bool, TextList
from config.fields.header_template import Variable
from config.routes.route_identity_headers import header_templates, uses_provider_token
from config.validation import Finding, Settings
from foundation.values import is_encrypted_or_local

if TYPE_CHECKING:
    from config.routes.route import Route

PASS, IN_CLEAR = "pass_provider_tokens", "pass_provider_tokens_unencrypted"


class ProviderTokenSettings(Settings):
    """Route keys of identity providers and their tokens."""

    identity_providers: TextList = Field(
        (),
        description="Ids of the identity providers whose users may pass. Only these are offered for sign-in.",
        examples=[["oidc"], "oidc"],
        json_schema_extra={"when_unset": "all providers"},
    )
    pass_provider_tokens: Bool = Field(
        False,
        description="Allows `${access_token}` and `${id_token}` in `set_request_headers`. The application can then act as the "
        "user at the provider, within `idp_scopes`.",
        examples=[True],
    )
    pass_provider_tokens_unencrypted: Bool = Field(
        False,
        description="Allows `pass_provider_tokens` over plain HTTP to another machine, where the network can read the tokens.",
        examples=[True],
    )


def allows_plaintext_tokens(route: "Route") -> bool:
    """Return whether the operator allows provider tokens over plain HTTP to another machine."""
    return bool(route.pass_provider_tokens_unencrypted)


# enforcement-point: Upstream requests: Routes that may receive provider tokens
def check_provider_token_exposure(route: "Route") -> Iterator[Finding]:
    """Provider tokens are sent only if the route allows it, and only over encrypted or local connections."""
    named = {name: parts for name, parts in header_templates(route).items() if uses_provider_token(parts)}
    for name, parts in named.items():
        if not route.pass_provider_tokens:
            yield ("set_request_headers", name), f"contains a token of the provider, which requires {PASS}: true"
        if sum(isinstance(part, Variable) for part in parts) > 1:
            yield ("set_request_headers", name), "contains a token of the provider, so it can't contain a second ${...}"
    if not route.pass_provider_tokens:
        if route.pass_provider_tokens_unencrypted:
            yield (IN_CLEAR,), f"has no effect without {PASS}"
        return
    if not named:
        yield (PASS,), "has no effect without ${access_token} or ${id_token} in set_request_headers"
    if route.allow_public_unauthenticated_access or not route.to:
        yield (PASS,), "requires a route with an upstream and sign-in"
    if route.bearer_token is not None:
        yield (PASS,), "cannot be combined with bearer_token: a client with a token has no session at the provider. Use two routes"
    plain = [str(each.url) for each in route.to if not is_encrypted_or_local(each.url.scheme, each.url.host)]
    if plain and not allows_plaintext_tokens(route):
        yield (PASS,), f"would send users' tokens to {plain[0]} unencrypted. Use https, or set {IN_CLEAR}: true"
    if allows_plaintext_tokens(route) and not plain:
        yield (IN_CLEAR,), "has no effect: no URL in `to` is plain HTTP to another machine"
