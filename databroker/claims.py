"""Authoritative claims of providers: groups in a claim, and email addresses that are verified and that the provider may assert."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from config.issuers import matches_issuer
from config.options import Options
from config.provider_config import ProviderConfig, owned_email_for, provider_for_user
from databroker.records import UserRecord, issuer_in
from foundation.claim_values import ListedValues, NullValues, PartialValues, UnescapedValues, is_partial, unescape
from foundation.email_address import canonical_email

_DOT = re.compile(r"(?<!\\)\.")  # separator of a path; a dot in a name is escaped
_COMPARABLE = (str, int, float)


@dataclass(frozen=True, slots=True)
class GroupsClaim:
    """Claim with the groups of one provider's users; `name` is "" if none is configured.

    `provider` is the first part of the user ids, `prefix` the prefix of record ids of the provider's directory groups.
    """

    name: str
    provider: str
    issuer: str
    prefix: str = ""

    def read_groups(self, user: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the groups in a user's record; none if another issuer asserted it, because sessions of that issuer are ignored."""
        claims = user.get("claims")
        if not self.name or not isinstance(claims, Mapping):
            return ()
        return groups_in(claims, self.name) if matches_issuer(self.issuer, str(user.get("issuer") or issuer_in(claims))) else ()


@dataclass(frozen=True, slots=True)
class ProviderClaims:
    """Authoritative claims of all providers: groups claims, and email addresses that a provider may assert."""

    claims: tuple[GroupsClaim, ...]
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)

    @classmethod
    def from_options(cls, options: Options) -> Self:
        providers = options.providers.values()
        claims = tuple(GroupsClaim(each.groups_claim, each.id, each.issuer, each.record_id_prefix) for each in providers)
        return cls(claims, options.providers)

    def assertable_email(self, user_id: str, email: str) -> str:
        """Return the address, or "" if the user's provider may not assert it."""
        return owned_email_for(email, user_id, self.providers)

    def verified_email(self, user_id: str, user: Mapping[str, Any]) -> str:
        """Return the address in the fields of a user's record, or "" if it may belong to another user."""
        return verified_email(user_id, user, self.providers)

    def read_groups(self, user_id: str, user: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the groups in this user's record."""
        claim = self._groups_claim_for(user_id)
        return claim.read_groups(user) if claim is not None else ()

    def records_prefix(self, user_id: str) -> str:
        """Return the prefix of record ids of groups from the directory of this user's provider."""
        claim = self._groups_claim_for(user_id)
        return claim.prefix if claim is not None else ""

    def _groups_claim_for(self, user_id: str) -> GroupsClaim | None:
        provider_id = user_id.partition("/")[0]
        return next((claim for claim in self.claims if claim.provider == provider_id), None)


def verified_email(user_id: str, fields: Mapping[str, Any], providers: Mapping[str, ProviderConfig]) -> str:
    """Return `email` from the fields of a user's record, or from claims, unchanged; "" if no rule would match the user by it.

    Tables, the audit log, commands and the API identify a user only by this address.
    """
    email, claims = fields.get("email"), fields.get("claims")
    if not isinstance(email, str):
        return ""
    user = UserRecord(user_id, email, fields.get("email_verified"), claims=claims if isinstance(claims, Mapping) else {})
    return email if verified_email_for(user, {}, provider_for_user(user_id, providers)) else ""


# enforcement-point: Identity: Email address that rules match
def verified_email_for(user: UserRecord, session_claims: Mapping[str, Any], provider: ProviderConfig | None) -> str:
    """Return the canonical email address by which rules match a user, or "".

    It is "" if the address is not verified, if the provider may not assert its domain, or if the session started with another address,
    because the record is that of the latest sign-in.
    """
    email = canonical_email(user.email) if may_match_by_email(user, session_claims) else ""
    if not is_session_address(email, session_claims):
        return ""
    return email if provider is not None and provider.owns_domain(email.rpartition("@")[2]) else ""


def is_session_address(email: str, session_claims: Mapping[str, Any]) -> bool:
    """Return whether a session started with this address of its user's record, or its claims have no address.

    Another session of the account may have written the record.  The claim is `email`, or `mail` at Ping.
    """
    asserted = [session_claims[name] for name in ("email", "mail") if name in session_claims]
    address = next((value for value in asserted if isinstance(value, str) and value), "")
    return not asserted or canonical_email(address) == canonical_email(email)


def may_match_by_email(user: UserRecord, session_claims: Mapping[str, Any]) -> bool:
    """Return whether every source that sends `email_verified` sends true."""
    return all(map(is_yes, email_assertions(user, session_claims)))


def email_assertions(user: UserRecord, session_claims: Mapping[str, Any]) -> list[Any]:
    """Return the `email_verified` values of all sources."""
    values = (user.email_verified, user.claims.get("email_verified"), session_claims.get("email_verified"))
    return [value for value in values if value is not None]


def is_yes(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true") or (type(value) is int and value == 1)


def groups_in(claims: Mapping[str, Any], groups_claim: str) -> tuple[str, ...]:
    """Return the distinct groups in the claims; `groups_claim` is a dotted path, "" for none."""
    return groups_in_flat(flatten_claims(claims), groups_claim)


def groups_in_flat(flat: Mapping[str, tuple[Any, ...]], groups_claim: str) -> tuple[str, ...]:
    """Return the groups as `groups_in` does, from flattened claims.  Integer ids become text."""
    if not groups_claim:  # because a provider may send a claim with an empty name
        return ()
    return tuple(dict.fromkeys(str(value) for value in flat.get(groups_claim, ()) if _is_group_id(value) and value != ""))


def names_all_groups(values: tuple[Any, ...]) -> bool:
    """Return whether each value of the groups claim is a group id.  True for an empty list: the user has no groups."""
    return not is_partial(values) and all(map(_is_group_id, values))


def _is_group_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def flatten_claims(claims: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each claim by its dotted path.  The type of the tuple records omissions (foundation/claim_values.py).

    A map has its own path in addition to those of its members.  The value of a distributed or aggregated claim (OpenID Connect
    Core 1.0, 5.6.2) is unknown, and so is that of a path without the backslashes before the dots of its names.
    """
    flat: dict[str, tuple[Any, ...]] = {}
    pending: list[tuple[str, Mapping[str, Any]]] = [("", claims)]
    while pending:
        path, level = pending.pop()
        for name, value in level.items():
            key = f"{path}{_path_part(str(name))}"
            # Two claims have one path, so it is unknown which of them a rule means.
            flat[key] = _values(value) if key not in flat else PartialValues()
            if isinstance(value, Mapping):
                pending.append((f"{key}.", value))
    distributed = claims.get("_claim_names")
    for name in distributed if isinstance(distributed, Mapping) else ():
        key = _path_part(str(name))
        flat[key] = PartialValues(flat[key]) if flat.get(key) else NullValues()
    for key in [key for key in flat if "\\" in key]:
        flat.setdefault(unescape(key), UnescapedValues())
    return flat


def nest_claims(values_by_path: Mapping[str, Any]) -> dict[str, Any]:
    """Return claims as a provider sends them, from values by dotted path: the inverse of `flatten_claims`."""
    claims: dict[str, Any] = {}
    for path, value in values_by_path.items():
        head, slash, tail = path.rpartition("/") if "://" in path else ("", "", path)
        first, *names = _DOT.split(tail)
        level, name = claims, head + slash + first
        for inner in names:
            level = level.setdefault(_name_in(name), {})
            if not isinstance(level, dict):
                raise ValueError(f"the claim {path!a} is inside another claim with a value")
            name = inner
        level[_name_in(name)] = value
    return claims


def _name_in(part: str) -> str:
    return part.replace(r"\.", ".").replace(r"\\", "\\")


def _path_part(name: str) -> str:
    """Return the name escaped for a path: a backslash before each dot, except in a URL before its last slash."""
    head, slash, tail = name.rpartition("/") if "://" in name else ("", "", name)
    return head + slash + tail.replace("\\", r"\\").replace(".", r"\.")


def _values(value: Any) -> tuple[Any, ...]:
    if isinstance(value, _COMPARABLE):
        return (value,)
    if not isinstance(value, list | tuple):
        return NullValues() if _is_empty(value) else PartialValues()
    comparable = [item for item in value if isinstance(item, _COMPARABLE)]
    if len(comparable) == len(value):
        return ListedValues(comparable)
    return NullValues() if all(map(_is_empty, value)) else PartialValues(comparable)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, Mapping | list | tuple) and not value)
