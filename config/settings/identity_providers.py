"""Several identity providers: the entries of `identity_providers`, in place of the `idp_*` settings of a single one."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pydantic import Field

from config.fields.header_template import CLAIM, Variable
from config.fields.header_template import ID_TOKEN as ID_TOKEN_VARIABLE
from config.issuers import TENANT, matches_issuer
from config.parsing.document import KeyPath, parse_key_path
from config.routes.policy.policy_language import Comparison, iter_comparisons, iter_expression_comparisons
from config.routes.route_bearer_tokens import ACCESS_TOKEN, ANY_CLIENT, ID_TOKEN, JWT, USER_CLAIMS
from config.routes.route_identity_headers import header_templates
from config.settings.authorize_settings import effective_groups_claim
from config.settings.linked_accounts import check_links
from config.settings.provider_entry import IdentityProvider
from config.validation import Finding, Rule, Settings, ValidSubset
from foundation.values import SecretText

if TYPE_CHECKING:
    from config.options import Options
    from config.routes.route import Route

MAX_PROVIDERS = 100

# Values of required single-provider settings that are not used.
UNUSED = "not used"
PLACEHOLDERS = {
    "idp_provider": "oidc",
    "idp_provider_url": "https://not-used.invalid",
    "idp_client_id": UNUSED,
    "idp_client_secret": UNUSED,
}
# Key of an entry -> equivalent setting of a single provider.
SINGLE_PROVIDER_KEYS = {
    "id": "idp_provider",
    "provider": "idp_provider",
    "url": "idp_provider_url",
    **{key: f"idp_{key}" for key in ("client_id", "client_secret", "scopes", "request_params", "service_account", "service_account_file")},
    "directory_url": "idp_directory_url",
    "groups_claim": "groups_claim",
    **{key: key for key in ("directory_file", "scim_token", "scim_token_file", "scim_user_id", "scim_group_id")},
}
_WITH_DEFAULT = ("scim_user_id", "scim_group_id")


def single_provider_placeholders(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return values for the required settings of a single provider, if `identity_providers` is set."""
    return {} if settings.get("identity_providers") is None else PLACEHOLDERS


def provider_entries(settings: "Options") -> Sequence[IdentityProvider]:
    """Return the entries of `identity_providers`; without them, one entry made of the `idp_*` settings, whose id is its kind.

    On invalid settings, the entry contains the valid ones.
    """
    if settings.identity_providers is not None:
        return settings.identity_providers
    known = vars(settings)
    values = {key: known[setting] for key, setting in SINGLE_PROVIDER_KEYS.items() if setting in known}
    if "groups_claim" in values and "provider" in values:
        values["groups_claim"] = effective_groups_claim(settings)
    else:
        values.pop("groups_claim", None)
    rest = {key: value for key, value in IdentityProvider.defaults().items() if key not in SINGLE_PROVIDER_KEYS}
    if len(values) < len(SINGLE_PROVIDER_KEYS):
        return (cast("IdentityProvider", ValidSubset({**rest, **values})),)
    if "idp_request_params" not in settings.model_fields_set:
        values["request_params"] = None
    return (IdentityProvider.model_construct(**rest, **values),)


def provider_key_path(settings: "Options", index: int, key: str) -> KeyPath:
    """Return the key path of a key of `provider_entries(settings)[index]`."""
    return (SINGLE_PROVIDER_KEYS[key],) if settings.identity_providers is None else ("identity_providers", index, key)


def provider_kinds(settings: "Options") -> Mapping[str, str]:
    """Return the kinds of the providers by id."""
    return {entry.id: entry.provider for entry in provider_entries(settings)}


def groups_claims(settings: "Options") -> frozenset[str]:
    """Return the claims that contain groups, of all providers."""
    return frozenset(entry.groups_claim for entry in provider_entries(settings) if entry.groups_claim)


def has_multiple_providers(settings: "Options") -> bool:
    return len(provider_entries(settings)) > 1


def _check_unique_providers(settings: "Options") -> Iterator[Finding]:
    """The provider's id is the prefix of user ids, and its issuer identifies its tokens."""
    entries = settings.identity_providers
    if entries is None:
        return
    if not 0 < len(entries) <= MAX_PROVIDERS:
        yield ("identity_providers",), f"must have from 1 to {MAX_PROVIDERS} entries"
    for index, entry in enumerate(entries):
        for earlier, other in enumerate(entries[:index]):
            if entry.id == other.id:
                yield ("identity_providers", index, "id"), f"duplicate id {entry.id} (also in identity_providers[{earlier}])"
            if _same_issuer(entry.issuer, other.issuer):
                message = f"duplicate issuer (also in identity_providers[{earlier}]): issuers must be unique"
                yield ("identity_providers", index, "url"), message


def _same_issuer(one: str, other: str) -> bool:
    """Return whether one token could match both issuers: Microsoft's shared endpoints cover every tenant."""
    tenant = "00000000-0000-0000-0000-000000000000"
    return matches_issuer(one, other.replace(TENANT, tenant)) or matches_issuer(other, one.replace(TENANT, tenant))


def _check_domains_required(settings: "Options") -> Iterator[Finding]:
    for index, entry in enumerate(settings.identity_providers or ()):
        if entry.domains is None and has_multiple_providers(settings):
            message = "is required with several providers: the e-mail domains that this provider may assert; [] for none"
            yield ("identity_providers", index, "domains"), message


def _check_unique_scim_tokens(settings: "Options") -> Iterator[Finding]:
    """The SCIM token alone identifies the provider of pushed users."""
    known: dict[str, int] = {}
    for index, entry in enumerate(settings.identity_providers or ()):
        for token in entry.scim_token or ():
            if known.setdefault(token.reveal(), index) != index:
                message = f"duplicate SCIM token (also in identity_providers[{known[token.reveal()]}]). Generate one for each provider"
                yield ("identity_providers", index, "scim_token_file" if entry.scim_token_file else "scim_token"), message


def _check_client_credentials(settings: "Options") -> Iterator[Finding]:
    """Only the process that signs users in needs the client credentials; no other should have them."""
    if settings.services not in ("all", "authenticate"):
        return
    for index, entry in enumerate(settings.identity_providers or ()):
        for key in ("client_id", "client_secret"):
            if not getattr(entry, key):
                yield ("identity_providers", index, key), "is required: the provider issues it when you register a client"


def _check_no_single_provider_keys(settings: "Options") -> Iterator[Finding]:
    """Settings of a single provider next to `identity_providers` would define an unintended provider."""
    if settings.identity_providers is None:
        return
    for key, unused in PLACEHOLDERS.items():
        value = getattr(settings, key)
        if (value.reveal() if isinstance(value, SecretText) else value) != unused:
            yield (key,), "cannot be combined with identity_providers. Move it into an entry there"
    for key in (key for key in SINGLE_PROVIDER_KEYS.values() if key not in PLACEHOLDERS):
        if key in settings.model_fields_set if key in _WITH_DEFAULT else getattr(settings, key):
            yield (key,), f"cannot be combined with identity_providers. Use {key.removeprefix('idp_')} in its entry"


def _check_route_providers(settings: "Options") -> Iterator[Finding]:
    known = provider_kinds(settings)
    for index, route in enumerate(settings.policy):
        is_named = route.identity_providers or "provider" in route.criteria or route.access_requests is not None
        for place, name in _named_on(route) if is_named else ():
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"Did you mean {close[0]}?" if close else f"Configured: {', '.join(known)}"
                yield ("policy", index, *place), f"unknown provider {name!r}. {hint}"


def _named_on(route: "Route") -> Iterator[tuple[KeyPath, str]]:
    yield from ((("identity_providers", position), name) for position, name in enumerate(route.identity_providers))
    for place, comparison in _comparisons(route):
        if comparison.criterion == "provider":
            yield from ((place, name) for name in comparison.operand)


def _check_provider_token_source(settings: "Options") -> Iterator[Finding]:
    """A service that receives a token of unknown origin could misuse it, so it is sent to one known provider only."""
    for index, route in enumerate(settings.policy) if has_multiple_providers(settings) else ():
        if route.bearer_token in (ACCESS_TOKEN, ID_TOKEN) and len(route.identity_providers) != 1:
            yield (
                ("policy", index, "bearer_token"),
                "is specific to one provider. List only that provider in identity_providers of this route",
            )


def _route_providers(route: "Route", entries: Sequence[IdentityProvider]) -> list[IdentityProvider]:
    """Return the providers whose users the route accepts."""
    return [entry for entry in entries if not route.identity_providers or entry.id in route.identity_providers]


def _github_routes(settings: "Options") -> list[tuple[int, "Route"]]:
    """Return the routes that accept users of github, which issues no signed tokens, with their indexes."""
    entries = [entry for entry in provider_entries(settings) if entry.provider == "github"]
    return [(index, route) for index, route in enumerate(settings.policy) if _route_providers(route, entries)]


def _check_provider_token_support(settings: "Options") -> Iterator[Finding]:
    for index, route in _github_routes(settings):
        for name, parts in header_templates(route).items():
            if Variable(ID_TOKEN_VARIABLE) in parts:
                yield ("policy", index, "set_request_headers", name), "contains an ID token, which github does not issue"


def _check_step_up_support(settings: "Options") -> Iterator[Finding]:
    for index, route in _github_routes(settings):
        for key in ("acr_values", "max_age"):
            if getattr(route, key):
                yield ("policy", index, key), "requires an OpenID Connect provider: github does not report how and when users signed in"


def _check_bearer_token_support(settings: "Options") -> Iterator[Finding]:
    entries = provider_entries(settings)
    for index, route in enumerate(settings.policy):
        for entry in _route_providers(route, entries) if route.bearer_token in (ID_TOKEN, ACCESS_TOKEN) else ():
            if route.bearer_token == ID_TOKEN and entry.client_id in ("", UNUSED):
                yield ("policy", index, "bearer_token"), "requires idp_client_id in this service, too: it is the audience of ID tokens"
            if entry.provider == "github" and (route.bearer_token == ID_TOKEN or route.bearer_token_audience != (ANY_CLIENT,)):
                yield (
                    ("policy", index, "bearer_token"),
                    "github issues no signed tokens. Use idp_access_token with bearer_token_audience: *",
                )


def _check_claims_single_issuer(settings: "Options") -> Iterator[Finding]:
    """Rules on claims, users and groups of another issuer must name that issuer."""
    user_claims = USER_CLAIMS | groups_claims(settings)
    for index, route in enumerate(settings.policy):
        for name in route.allowed_idp_claims if route.bearer_token == JWT else ():
            if name in user_claims:
                yield (
                    ("policy", index, "allowed_idp_claims", name),
                    (
                        f"would match claims of the provider's users and of tokens of {route.bearer_token_issuer}. Write "
                        f"policy: [{{allow: {{and: [{{claim/iss: ...}}, {{claim/{name}: ...}}]}}}}] with the intended issuer"
                    ),
                )


def _check_claims_name_providers(settings: "Options") -> Iterator[Finding]:
    """A claim is only as trustworthy as its provider: each provider controls the claims of its users."""
    for index, route in enumerate(settings.policy if has_multiple_providers(settings) else ()):
        if not route.identity_providers:
            yield from ((("policy", index, *place), _CLAIMS_MESSAGE) for place in _claim_rules(route))
            for name, key in _sent_claims(settings, route):
                yield ("policy", index, key), f"sends {name}, which {_CLAIMS_MESSAGE}"


def _claim_rules(route: "Route") -> Iterator[KeyPath]:
    yield from dict.fromkeys(place for place, comparison in _comparisons(route) if comparison.criterion == "claim")


def _sent_claims(settings: "Options", route: "Route") -> Iterator[tuple[str, str]]:
    """Yield the claims that identify users to the upstream, with the key that sends them.

    `preferred_username` of one provider may be another user's at a second provider.
    """
    for name in settings.jwt_claims_headers if route.pass_identity_headers else ():
        if name not in GATE_CLAIMS:
            yield name, "pass_identity_headers"
    for parts in header_templates(route).values():
        for part in parts:
            if isinstance(part, Variable) and part.name.startswith(CLAIM) and part.name.removeprefix(CLAIM) not in GATE_CLAIMS:
                yield part.name.removeprefix(CLAIM), "identity_headers" if route.identity_headers else "set_request_headers"


def _comparisons(route: "Route") -> Iterator[tuple[KeyPath, Comparison]]:
    """Yield the comparisons of the route's policy and of the rules of its approvers."""
    for comparison in iter_comparisons(route.blocks):
        yield parse_key_path(comparison.key), comparison
    requests = route.access_requests
    if requests is not None:
        yield from ((("access_requests", "approvers"), each) for each in iter_expression_comparisons([requests.approvers]))
        if requests.break_glass is not None:
            yield from (
                (("access_requests", "break_glass", "allowed"), each)
                for each in iter_expression_comparisons([requests.break_glass.allowed])
            )


# Claims that gate sets itself, or accepts only within the provider's domains.
GATE_CLAIMS = frozenset({"email", "name", "groups", "sub", "user", "iss", "aud", "jti", "iat", "exp"})
_CLAIMS_MESSAGE = "can be asserted by any provider. List the trusted providers in identity_providers of this route"


class IdentityProviderSettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (
        _check_unique_providers,
        _check_domains_required,
        _check_unique_scim_tokens,
        _check_client_credentials,
        _check_no_single_provider_keys,
        _check_route_providers,
        _check_provider_token_source,
        _check_claims_name_providers,
        _check_bearer_token_support,
        _check_provider_token_support,
        _check_step_up_support,
        _check_claims_single_issuer,
        check_links,
    )

    identity_providers: tuple[IdentityProvider, ...] | None = Field(
        None,
        description="Identity providers, in place of the `idp_*` settings, if users come from several.",
        examples=[
            [
                {
                    "id": "corp",
                    "provider": "oidc",
                    "url": "https://idp.corp.example",
                    "client_id": "gate",
                    "client_secret": "the-secret-that-the-provider-gave-you",
                    "domains": ["corp.example"],
                    "title": "Employees",
                }
            ]
        ],
        json_schema_extra={"when_unset": "the single provider of `idp_provider`"},
    )
