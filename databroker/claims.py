"""Claims of a provider that count: the groups that a claim names, and addresses that are verified and the provider's to assert."""

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

_DOT = re.compile(r"(?<!\\)\.")  # of a path, not of a name
_COMPARABLE = (str, int, float)


@dataclass(frozen=True, slots=True)
class GroupsClaim:
    """The claim that counts as groups, "" for none, of the people of one provider: whose ids begin with `provider`.

    `prefix` is what the ids of records of its directory's groups begin with.
    """

    name: str
    provider: str
    issuer: str
    prefix: str = ""

    def read_groups(self, user: Mapping[str, Any]) -> tuple[str, ...]:
        """Groups that a user's record names; none where another issuer vouched for it, whose sessions count as none."""
        claims = user.get("claims")
        if not self.name or not isinstance(claims, Mapping):
            return ()
        return groups_in(claims, self.name) if matches_issuer(self.issuer, str(user.get("issuer") or issuer_in(claims))) else ()


@dataclass(frozen=True, slots=True)
class ProviderClaims:
    """What counts of the words of all providers: those claims, and addresses that are the provider's to tell."""

    claims: tuple[GroupsClaim, ...]
    providers: Mapping[str, ProviderConfig] = field(default_factory=dict)

    @classmethod
    def from_options(cls, options: Options) -> Self:
        providers = options.providers.values()
        claims = tuple(GroupsClaim(each.groups_claim, each.id, each.issuer, each.record_id_prefix) for each in providers)
        return cls(claims, options.providers)

    def assertable_email(self, user_id: str, email: str) -> str:
        """The address, "" where it is not for this user's provider to tell."""
        return owned_email_for(email, user_id, self.providers)

    def verified_email(self, user_id: str, user: Mapping[str, Any]) -> str:
        """Return the address in the fields of a user's record, "" where it may be another user's."""
        return verified_email(user_id, user, self.providers)

    def read_groups(self, user_id: str, user: Mapping[str, Any]) -> tuple[str, ...]:
        """Groups that the record of this user names."""
        claim = self._groups_claim_for(user_id)
        return claim.read_groups(user) if claim is not None else ()

    def records_prefix(self, user_id: str) -> str:
        """What the ids of records of groups begin with that the directory of this user's provider tells."""
        claim = self._groups_claim_for(user_id)
        return claim.prefix if claim is not None else ""

    def _groups_claim_for(self, user_id: str) -> GroupsClaim | None:
        provider_id = user_id.partition("/")[0]
        return next((claim for claim in self.claims if claim.provider == provider_id), None)


def verified_email(user_id: str, fields: Mapping[str, Any], providers: Mapping[str, ProviderConfig]) -> str:
    """Return `email` of the fields of a user's record, or of claims, as it is written: "" where no rule would match the user by it.

    The one answer to which address names a user in evidence: tables, the audit log, commands and the API.
    """
    email, claims = fields.get("email"), fields.get("claims")
    if not isinstance(email, str):
        return ""
    user = UserRecord(user_id, email, fields.get("email_verified"), claims=claims if isinstance(claims, Mapping) else {})
    return email if verified_email_for(user, {}, provider_for_user(user_id, providers)) else ""


# enforcement-point: Identity: Email address that rules match
def verified_email_for(user: UserRecord, session_claims: Mapping[str, Any], provider: ProviderConfig | None) -> str:
    """Address by which a person of ours is meant, in the form that rules compare; "" where nobody may be found by it: nobody has
    verified it, it is not for this provider to tell, or the session began under another address: the record is that of the latest sign-in.
    """
    email = canonical_email(user.email) if may_match_by_email(user, session_claims) else ""
    if not is_session_address(email, session_claims):
        return ""
    return email if provider is not None and provider.owns_domain(email.rpartition("@")[2]) else ""


def is_session_address(email: str, session_claims: Mapping[str, Any]) -> bool:
    """Whether a session began under this address of its user's record, or its provider named none (`email`, or `mail` as at Ping).

    Another session of the account may have written the record.
    """
    asserted = [session_claims[name] for name in ("email", "mail") if name in session_claims]
    address = next((value for value in asserted if isinstance(value, str) and value), "")
    return not asserted or canonical_email(address) == canonical_email(email)


def may_match_by_email(user: UserRecord, session_claims: Mapping[str, Any]) -> bool:
    """Every source that says anything about it must say yes."""
    return all(map(is_yes, email_assertions(user, session_claims)))


def email_assertions(user: UserRecord, session_claims: Mapping[str, Any]) -> list[Any]:
    """Return the `email_verified` values of all sources."""
    values = (user.email_verified, user.claims.get("email_verified"), session_claims.get("email_verified"))
    return [value for value in values if value is not None]


def is_yes(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true") or (type(value) is int and value == 1)


def groups_in(claims: Mapping[str, Any], groups_claim: str) -> tuple[str, ...]:
    """The groups that the claims name, one or many, each once; `groups_claim` is a dotted path, "" for none."""
    return groups_in_flat(flatten_claims(claims), groups_claim)


def groups_in_flat(flat: Mapping[str, tuple[Any, ...]], groups_claim: str) -> tuple[str, ...]:
    """As `groups_in`, of claims that are flattened already.  An id that is a whole number is read as text."""
    if not groups_claim:  # a provider may send a claim whose name is empty
        return ()
    return tuple(dict.fromkeys(str(value) for value in flat.get(groups_claim, ()) if _is_group_id(value) and value != ""))


def names_all_groups(values: tuple[Any, ...]) -> bool:
    """Whether each value of the groups claim can be read as a group.  An empty list names all groups: none."""
    return not is_partial(values) and all(map(_is_group_id, values))


def _is_group_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def flatten_claims(claims: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each claim by its dotted path, with the kind of tuple that says what was left out (foundation/claim_values.py).

    A map has a path of its own, besides the paths of its members.  A claim that the provider keeps elsewhere (OpenID Connect Core 1.0,
    5.6.2) is one whose value is not known, and so is one that a rule names without the backslashes before its dots.
    """
    flat: dict[str, tuple[Any, ...]] = {}
    pending: list[tuple[str, Mapping[str, Any]]] = [("", claims)]
    while pending:
        path, level = pending.pop()
        for name, value in level.items():
            key = f"{path}{_path_part(str(name))}"
            # Two claims of one path: it is not known which of them a rule means.
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
    """Return claims as a provider sends them, from values by dotted paths: the reverse of `flattened`."""
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
    """Return the name as a path has it: a backslash before each of its own dots, but for those of a URL before its last slash."""
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
