"""Several identity providers at once: an entry of `identity_providers` for each, in place of the keys `idp_*`, which are one."""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from config.documents.document import KeyPath, path_of
from config.issuers import DEFAULT_URLS, TENANT, is_issuer, issuer_of
from config.routes.bearer_tokens import ACCESS_TOKEN, ID_TOKEN, JWT
from config.routes.policy.language import Comparison, comparisons, comparisons_in
from config.routes.portal import Icon, Title
from config.routes.told_headers import told_templates
from config.settings.authenticate import PROVIDERS, PROVIDERS_WITHOUT_URL, Scopes, provider_url
from config.settings.authenticate import request_params as read_params
from config.settings.authorize import claimed_groups
from config.settings.linked_accounts import VERIFIED_EMAIL, links_have_two_ends
from config.types.fields import File, Secret, Text, or_file, text, text_list
from config.types.header_template import CLAIM, Variable
from config.types.reader import LIST, MAP, TEXT, WEB_URL, SettingReader, one_of
from config.validation import Finding, Rule, Settings
from foundation.values import SecretText

SERVICE_ACCOUNT = "service_account"
# What ids begin with of whom no identity provider signs in.
OF_NO_PROVIDER = frozenset({"", JWT, SERVICE_ACCOUNT, VERIFIED_EMAIL})
MOST_PROVIDERS = 100

_ID = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)+")
# What the keys of one provider hold where nobody reads them.
NOT_USED = "not used"
IN_PLACE = {
    "idp_provider": "oidc",
    "idp_provider_url": "https://not-used.invalid",
    "idp_client_id": NOT_USED,
    "idp_client_secret": NOT_USED,
}
_OF_ONE = ("idp_scopes", "idp_request_params", "idp_service_account", "idp_service_account_file", "idp_directory_url", "groups_claim")
_OF_ONE_DIRECTORY = ("directory_file", "scim_token", "scim_token_file")


def _id(value: Any) -> str:
    written = text(value)
    if not _ID.fullmatch(written):
        raise ValueError("must be a short name in lower case, such as corp: a letter, then letters, digits, - or _")
    if written in OF_NO_PROVIDER:
        raise ValueError(f"{written} is what ids of others begin with: choose another name")
    return written


def _domains(value: Any) -> tuple[str, ...]:
    written = tuple(dict.fromkeys(domain.lower() if domain.isascii() else domain for domain in text_list(value)))
    for domain in written:
        if not _DOMAIN.fullmatch(domain):
            raise ValueError(f"{domain!r} is no domain such as corp.example (one beyond ASCII is written xn--...)")
    return written


def _url_is_known(entry: Any) -> Iterator[Finding]:
    if not entry.url and entry.provider in PROVIDERS_WITHOUT_URL:
        yield ("url",), "is required: the provider's issuer URL, as in https://idp.example.com"


def _scopes_bring_a_token(entry: Any) -> Iterator[Finding]:
    if entry.scopes and entry.provider != "github" and "openid" not in entry.scopes:
        yield ("scopes",), "must contain openid: without it the provider sends no ID token"


class IdentityProvider(Settings):
    """An entry of `identity_providers`."""

    RULES: ClassVar[tuple[Rule, ...]] = (_url_is_known, _scopes_bring_a_token)
    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        "name": "is called `id` here, which people's ids begin with; `title` is what people read",
        "issuer": "is called `url` here",
    }

    id: Annotated[str, SettingReader("string", _id, {"type": "string", "pattern": f"^{_ID.pattern}$"})] = Field(
        description="What gate calls it: the ids of its people begin with that, as in `corp/00u1`, and its callback ends with it. "
        "Another id makes them other people.",
        examples=["corp"],
    )
    provider: Annotated[str, one_of(*PROVIDERS, otherwise="oidc for any other provider of OpenID Connect")] = Field(
        description="Its kind, as of `idp_provider`.", examples=["azure"]
    )
    url: Annotated[str, SettingReader("URL", provider_url, WEB_URL)] = Field(
        "", description="Its issuer URL, as of `idp_provider_url`.", examples=["https://idp.example.com"]
    )
    client_id: Text = Field("", description="The client that gate is there.", examples=["gate"])
    client_secret_file: File | None = Field(None, description="File form of `client_secret`.", examples=["corp-client-secret"])
    client_secret: Annotated[Secret | None, or_file("client_secret_file", lambda content: SecretText(content.decode("utf-8").strip()))] = (
        Field(None, validate_default=True, description="That client's secret.", examples=["the-secret-that-the-provider-gave-you"])
    )
    scopes: Scopes = Field((), description="As `idp_scopes`.", examples=[["openid", "profile", "email"], "openid,profile,email"])
    request_params: Annotated[Mapping[str, str], SettingReader("map string-to-string", read_params, MAP)] | None = Field(
        None, description="As `idp_request_params`.", examples=[{"prompt": "select_account"}]
    )
    groups_claim: Annotated[str, SettingReader("string", text, TEXT)] = Field(
        "",
        description="The claim whose values count as groups. Whoever has one names groups of every rule: give it to none that you would "
        "not let name your administrators.",
        examples=["roles"],
        json_schema_extra={"when_unset": "its people have no groups"},
    )
    domains: Annotated[tuple[str, ...] | None, SettingReader("list of string", _domains, LIST)] = Field(
        None,
        description="The domains of the e-mail addresses that it may speak for: another address of its people counts in no rule, and no "
        "upstream is told it. Required where there are several providers.",
        examples=[["corp.example"], "corp.example,eu.corp.example"],
        json_schema_extra={"when_unset": "all, for a single provider"},
    )
    link_by: Annotated[str, one_of(VERIFIED_EMAIL)] = Field(
        "",
        description="Its people with a verified address of `domains` are one person with those of the same address at the other providers "
        "that say so, to applications and in requests for access. Turning it on or off makes them other people there.",
        examples=[VERIFIED_EMAIL],
        json_schema_extra={"when_unset": "each account is a person"},
    )
    title: Title = Field("", description="What people read where they choose.", examples=["Employees"])
    icon: Icon | None = Field(None, description="Its picture there: a small PNG, an SVG of shapes alone, or a word.", examples=["people"])

    @property
    def issuer(self) -> str:
        return issuer_of(self.provider, self.url or DEFAULT_URLS.get(self.provider, ""))


def in_place_of_one(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings that are required of one provider, where several are given."""
    return {} if given.get("identity_providers") is None else IN_PLACE


def provider_kinds(settings: Any) -> Mapping[str, str]:
    """Kinds of the providers, by their ids; that of `idp_provider` is called after its kind."""
    if settings.identity_providers is None:
        return {settings.idp_provider: settings.idp_provider}
    return {entry.id: entry.provider for entry in settings.identity_providers}


def groups_claims(settings: Any) -> frozenset[str]:
    """Claims that count as groups, of any provider."""
    if settings.identity_providers is None:
        return frozenset(filter(None, (claimed_groups(settings),)))
    return frozenset(entry.groups_claim for entry in settings.identity_providers if entry.groups_claim)


def several(settings: Any) -> bool:
    return settings.identity_providers is not None and len(settings.identity_providers) > 1


def _are_told_apart(settings: Any) -> Iterator[Finding]:
    """Ids are what people's ids begin with, and by its issuer whose word something is."""
    entries = settings.identity_providers
    if entries is None:
        return
    if not 0 < len(entries) <= MOST_PROVIDERS:
        yield ("identity_providers",), f"must name a provider, and at most {MOST_PROVIDERS}"
    for index, entry in enumerate(entries):
        for earlier, other in enumerate(entries[:index]):
            if entry.id == other.id:
                yield ("identity_providers", index, "id"), f"is the id of identity_providers[{earlier}], too: {entry.id}"
            if _are_one_issuer(entry.issuer, other.issuer):
                message = f"is the issuer of identity_providers[{earlier}], too: whose word would it be?"
                yield ("identity_providers", index, "url"), message


def _are_one_issuer(one: str, other: str) -> bool:
    """Whether a token may be of both: a shared endpoint of Microsoft speaks for every tenant."""
    tenant = "00000000-0000-0000-0000-000000000000"
    return is_issuer(one, other.replace(TENANT, tenant)) or is_issuer(other, one.replace(TENANT, tenant))


def _say_whose_addresses(settings: Any) -> Iterator[Finding]:
    for index, entry in enumerate(settings.identity_providers if several(settings) else ()):
        if entry.domains is None:
            message = "is required beside other providers: the domains of the e-mail addresses that it may speak for; [] for none"
            yield ("identity_providers", index, "domains"), message


def _clients_are_known(settings: Any) -> Iterator[Finding]:
    """Only who signs people in needs the clients, and no other process should be trusted with their secrets."""
    if settings.services not in ("all", "authenticate"):
        return
    for index, entry in enumerate(settings.identity_providers or ()):
        for key in ("client_id", "client_secret"):
            if not getattr(entry, key):
                yield ("identity_providers", index, key), "is required: the provider gives it when you register a client"


def _stand_alone(settings: Any) -> Iterator[Finding]:
    """The keys of one provider beside those of several would be one more, of which nobody knows whether it is meant."""
    if settings.identity_providers is None:
        return
    for key, unused in IN_PLACE.items():
        value = getattr(settings, key)
        if (value.reveal() if isinstance(value, SecretText) else value) != unused:
            yield (key,), "stands beside identity_providers: make it an entry there"
    for key in _OF_ONE:
        if getattr(settings, key):
            yield (key,), f"is of one provider, and identity_providers names them: {_WHERE.get(key, 'each entry has its own')}"
    for key in _OF_ONE_DIRECTORY:
        if getattr(settings, key):
            yield (key,), "is of one provider and not read beside identity_providers: groups come by groups_claim of an entry"


def _routes_name_providers(settings: Any) -> Iterator[Finding]:
    known = provider_kinds(settings)
    for index, route in enumerate(settings.policy):
        is_named = route.identity_providers or "provider" in route.criteria or route.access_requests is not None
        for place, name in _named_on(route) if is_named else ():
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(known)}"
                yield ("policy", index, *place), f"{name!r} is the id of no provider; {hint}"


def _named_on(route: Any) -> Iterator[tuple[KeyPath, str]]:
    yield from ((("identity_providers", position), name) for position, name in enumerate(route.identity_providers))
    for place, comparison in _comparisons(route):
        if comparison.criterion == "provider":
            yield from ((place, name) for name in comparison.operand)


def _tokens_are_of_one_provider(settings: Any) -> Iterator[Finding]:
    """Whoever a token of unknown origin is shown to can use it: it is asked of one provider, or of none."""
    for index, route in enumerate(settings.policy if several(settings) else ()):
        if route.bearer_token in (ACCESS_TOKEN, ID_TOKEN) and len(route.identity_providers) != 1:
            yield ("policy", index, "bearer_token"), "is of one provider: name it, and no other, in identity_providers of this route"


def _claims_are_of_named_providers(settings: Any) -> Iterator[Finding]:
    """What a claim is worth depends on who says it: any provider can say anything of its people."""
    for index, route in enumerate(settings.policy if several(settings) else ()):
        if not route.identity_providers:
            yield from ((("policy", index, *place), _WHOSE_CLAIMS) for place in _looks_at_claims(route))
            for name, key in _told_claims(settings, route):
                yield ("policy", index, key), f"tells {name}, which {_WHOSE_CLAIMS}"


def _looks_at_claims(route: Any) -> Iterator[KeyPath]:
    if route.allowed_idp_claims:
        yield ("allowed_idp_claims",)
    yield from (place for place, comparison in _comparisons(route) if comparison.criterion == "claim")


def _told_claims(settings: Any, route: Any) -> Iterator[tuple[str, str]]:
    """Claims by which the route's upstream would know people, and the key that has them told: `preferred_username` of one provider may be
    that of somebody else at another.
    """
    for name in settings.jwt_claims_headers if route.pass_identity_headers else ():
        if name not in OURS_TO_TELL:
            yield name, "pass_identity_headers"
    for parts in told_templates(route).values():
        for part in parts:
            if isinstance(part, Variable) and part.name.startswith(CLAIM) and part.name.removeprefix(CLAIM) not in OURS_TO_TELL:
                yield part.name.removeprefix(CLAIM), "identity_headers" if route.identity_headers else "set_request_headers"


def _comparisons(route: Any) -> Iterator[tuple[KeyPath, Comparison]]:
    """Comparisons of the route's policy, and of who gives access to it."""
    for comparison in comparisons(route.policy):
        yield path_of(comparison.key), comparison
    asking = route.access_requests
    if asking is not None:
        yield from ((("access_requests", "approvers"), each) for each in comparisons_in([asking.approvers]))
        if asking.break_glass is not None:
            yield from ((("access_requests", "break_glass", "allowed"), each) for each in comparisons_in([asking.break_glass.allowed]))


# Of a person gate itself says these, or takes them in the bounds of the provider.
OURS_TO_TELL = frozenset({"email", "name", "groups", "sub", "user", "iss", "aud", "jti", "iat", "exp"})
_WHERE = {
    "idp_request_params": "request_params of an entry",
    "idp_scopes": "scopes of an entry",
    "groups_claim": "groups_claim of an entry",
}
_WHOSE_CLAIMS = "may be said by any provider of its people: name in identity_providers of this route those whose word counts here"


class IdentityProviderSettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (
        _are_told_apart,
        _say_whose_addresses,
        _clients_are_known,
        _stand_alone,
        _routes_name_providers,
        _tokens_are_of_one_provider,
        _claims_are_of_named_providers,
        links_have_two_ends,
    )

    identity_providers: tuple[IdentityProvider, ...] | None = Field(
        None,
        description="Several providers at once, in place of the keys `idp_*` (docs/several_providers.md).",
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
        json_schema_extra={"when_unset": "the one provider of `idp_provider`"},
    )
