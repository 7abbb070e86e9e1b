"""Configuration checks of user entries: whether each can match a user of the configured providers."""

from collections.abc import Iterable, Iterator
from typing import Any

from authorize.policy.compiled_route import invalid_user_entries
from authorize.policy.user_entry import EntryKind, UserEntry, parse_user_entry
from config.parsing.document import KeyPath, parse_key_path
from config.routes.policy.policy_language import iter_comparisons
from config.routes.route import Route
from config.routes.route_bearer_tokens import ISSUER_SEPARATOR, JWT, USER_CLAIMS
from config.settings.authenticate_settings import PROVIDERS as KINDS
from config.settings.identity_providers import groups_claims, has_multiple_providers, provider_kinds
from config.settings.linked_accounts import VERIFIED_EMAIL
from config.settings.provider_entry import SERVICE_ACCOUNT
from config.validation import Finding

# (location, entry, external issuers that are accepted there)
_LocatedEntry = tuple[KeyPath, str, frozenset[str]]


def invalid_admin_entries(settings: Any) -> Iterator[Finding]:
    for problem in invalid_user_entries(settings.admin_allowed_users, "admin_allowed_users"):
        yield parse_key_path(problem.key), problem.message


def unmatchable_user_entries(settings: Any) -> Iterator[Finding]:
    """Report entries of an unconfigured provider, or of an issuer whose tokens the route does not accept."""
    known = tuple(provider_kinds(settings))
    for place, written, issuers in _entries(settings):
        try:
            entry = parse_user_entry(written)
        except ValueError:
            continue  # that is an error
        if entry.provider != VERIFIED_EMAIL and (message := _unmatchable_reason(entry, known, issuers)):
            yield place, f"{written!r} {message}"


def unqualified_subjects(settings: Any) -> Iterator[Finding]:
    """Report plain subjects if there are several providers, because each may issue the same subject."""
    if not has_multiple_providers(settings):
        return
    for place, written, _ in _entries(settings):
        try:
            entry = parse_user_entry(written)
        except ValueError:
            continue  # that is an error anyway
        if entry.kind is EntryKind.SUBJECT:
            id = next(iter(provider_kinds(settings)))
            yield place, f"{written} could match users of any provider. Add the provider, as in {id}/{written}"


def linked_ids_in_route(index: int, route: Route) -> Iterator[Finding]:
    """Report ids of linked users, which rules do not compare.  A user could evade a deny rule by hiding the address."""
    return _linked_ids(_entries_in_route(index, route))


def linked_ids_in_admins(settings: Any) -> Iterator[Finding]:
    return _linked_ids(_administrators(settings))


def _linked_ids(entries: Iterable[_LocatedEntry]) -> Iterator[Finding]:
    for place, written, _ in entries:
        if written.startswith(f"{VERIFIED_EMAIL}/"):
            yield place, f"{written!r} is the id that applications receive for linked accounts. Write the address only"


def unusable_bearer_routes(settings: Any) -> Iterator[Finding]:
    for index, route in enumerate(settings.policy):
        if route.bearer_token != JWT or route.allowed_idp_claims or any(block.effect == "allow" for block in route.policy):
            continue
        if not any(written.startswith(f"{route.bearer_token_issuer}{ISSUER_SEPARATOR}") for written in route.allowed_users):
            yield (
                ("policy", index, "bearer_token"),
                (
                    "allows no token: addresses, groups and subjects are those of the configured provider. List "
                    f"{route.bearer_token_issuer}{ISSUER_SEPARATOR}<sub> in allowed_users, or its claims in allowed_idp_claims or policy"
                ),
            )


def issuer_ambiguous_claims(settings: Any) -> Iterator[Finding]:
    provider_claims = {*USER_CLAIMS, *groups_claims(settings)}
    for index, route in enumerate(settings.policy):
        if route.bearer_token != JWT:
            continue
        comparisons = [comparison for comparison in iter_comparisons(route.policy) if comparison.criterion == "claim"]
        if any(comparison.argument == "iss" for comparison in comparisons):
            continue
        for comparison in comparisons:
            if comparison.argument in provider_claims:
                yield (
                    parse_key_path(f"policy[{index}].{comparison.key}"),
                    f"matches users of the provider and tokens of {route.bearer_token_issuer}. Add claim/iss to select one",
                )


def _entries(settings: Any) -> Iterator[_LocatedEntry]:
    for index, route in enumerate(settings.policy):
        yield from _entries_in_route(index, route)
    yield from _administrators(settings)


def _entries_in_route(index: int, route: Any) -> Iterator[_LocatedEntry]:
    issuers = frozenset({route.bearer_token_issuer} if route.bearer_token == JWT else ())
    yield from _listed(("policy", index, "allowed_users"), route.allowed_users, issuers)
    for comparison in iter_comparisons(route.policy):
        if comparison.criterion == "user":
            place = parse_key_path(f"policy[{index}].{comparison.key}")
            yield from ((place, written, issuers) for written in comparison.operand)


def _administrators(settings: Any) -> Iterator[_LocatedEntry]:
    return _listed(("admin_allowed_users",), settings.admin_allowed_users, frozenset())


def _listed(place: KeyPath, entries: Iterable[str], issuers: frozenset[str]) -> Iterator[_LocatedEntry]:
    yield from (((*place, index), written, issuers) for index, written in enumerate(entries))


def _unmatchable_reason(entry: UserEntry, providers: tuple[str, ...], issuers: frozenset[str]) -> str:
    """Return why an entry can match no user, "" if it can."""
    if entry.kind is not EntryKind.USER_ID or entry.provider in (*providers, SERVICE_ACCOUNT):
        return ""
    if entry.is_issuer_qualified:
        return "" if entry.provider in issuers else "refers to a token issuer that this route does not accept"
    if entry.provider in KINDS:
        configured = f"idp_provider is {providers[0]}" if len(providers) == 1 else f"the providers are {', '.join(providers)}"
        return f"refers to a user of {entry.provider}, but {configured}"
    if entry.provider == JWT:
        return f"matches no user. With bearer_token: jwt, write https://issuer{ISSUER_SEPARATOR}sub"
    return f"refers to a user of {entry.provider}, which is not a provider. Write a subject with a slash as {providers[0]}/{entry.name}"
