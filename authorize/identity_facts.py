"""What do the records of a person amount to?  Pure: records in, an Identity (or a ValueError) out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authorize.policy.email_address import canonical_email
from authorize.policy.identity import Identity
from databroker.records import DirectoryUser, Session, User

OF_THE_SIGN_IN = frozenset({"acr", "amr", "auth_time", "sid", "nonce", "jti", "iat", "exp", "nbf", "at_hash", "c_hash"})


@dataclass(frozen=True, slots=True)
class Facts:
    """`rule_group_names` are the names and e-mails that rules may compare; `group_names` are those that upstreams are told."""

    session: Session
    user: User
    person: DirectoryUser
    group_names: tuple[str, ...] = ()
    rule_group_names: frozenset[str] = frozenset()


def identity_of(facts: Facts, groups_claim: str | None) -> Identity:
    session, user = facts.session, facts.user
    # What a sign-in says of itself is not the person's: another, stronger session of theirs must not lend it to this one.
    claims = {name: values for name, values in flattened(user.claims).items() if name not in OF_THE_SIGN_IN} | flattened(session.claims)
    rule_email = canonical_email(user.email) if _may_match_by_email(facts) else ""
    if not rule_email:
        # A rule on the claim is a rule on e-mail too; upstreams are told `Identity.email`, not this.
        claims.pop("email", None)
    claimed_groups = [value for value in claims.get(groups_claim, ()) if isinstance(value, str) and value] if groups_claim else []
    group_ids = tuple(dict.fromkeys([*facts.person.group_ids, *claimed_groups]))
    return Identity(
        session_id=session.id,
        user_id=session.user_id,
        subject=session.subject,
        provider=session.provider,
        expires=session.expires,
        issued=session.issued,
        authenticated=session.authenticated,
        email=_text(user.email),
        rule_email=rule_email,
        directory_email=_text(facts.person.email),
        name=_text(user.name) or _text(facts.person.name),
        group_ids=frozenset(group_ids),
        group_names=facts.rule_group_names - frozenset(group_ids),
        groups=tuple(dict.fromkeys([*group_ids, *facts.group_names])),
        has_untold_groups=bool(groups_claim) and f"_claim_names.{groups_claim}" in claims,
        claims=claims,
    )


def flattened(claims: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Nested maps become dotted keys, scalars one-element tuples; what is neither text, number nor truth value is left out."""
    flat: dict[str, tuple[Any, ...]] = {}
    waiting: list[tuple[str, Mapping[str, Any]]] = [("", claims)]
    while waiting:
        path, level = waiting.pop()
        for name, value in level.items():
            key = f"{path}{name}"
            if isinstance(value, Mapping):
                waiting.append((f"{key}.", value))
            elif values := _scalars(value):
                flat[key] = (*flat.get(key, ()), *values)
    return flat


def _scalars(value: Any) -> tuple[Any, ...]:
    values = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(item for item in values if isinstance(item, (str, int, float)))


def _may_match_by_email(facts: Facts) -> bool:
    """Every source that says anything about it must say yes."""
    said = (facts.user.email_verified, facts.user.claims.get("email_verified"), facts.session.claims.get("email_verified"))
    return all(_is_yes(value) for value in said if value is not None)


def _is_yes(value: Any) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() == "true") or (type(value) is int and value == 1)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
