"""One small function per rule of a route: does it let this caller in, and why (not)?"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from authorize.policy.email_address import canonical_domain, canonical_email
from authorize.policy.identity import Identity
from authorize.policy.request import AccessRequest


class Reason(Enum):
    """Why a rule answered as it did, in the words shown to people."""

    PUBLIC = "the route is open to everyone"
    REDIRECT = "the route only redirects"
    PREFLIGHT = "the route lets CORS preflight requests through"
    NOT_PREFLIGHT = "this is not a CORS preflight request"
    NOT_SIGNED_IN = "nobody is signed in"
    SIGNED_IN = "any signed-in person may enter"
    USER_LISTED = "this person is listed"
    USER_NOT_LISTED = "you are not among the people listed"
    GROUP_LISTED = "one of this person's groups is listed"
    GROUP_NOT_LISTED = "none of your groups is listed"
    NO_GROUPS = "no group of yours is known"
    DOMAIN_LISTED = "the domain of this person's e-mail address is listed"
    DOMAIN_NOT_LISTED = "the domain of your e-mail address is not listed"
    EMAIL_NOT_USABLE = "your e-mail address is missing, or not verified by the identity provider"
    CLAIM_LISTED = "a claim of this person has a listed value"
    CLAIM_NOT_LISTED = "none of your claims has a listed value"


@dataclass(frozen=True, slots=True)
class Step:
    """One look at one rule; `rule` is the route key it comes from."""

    rule: str
    holds: bool
    reason: Reason


Criterion = Callable[[AccessRequest, Identity | None], Step]


def always(rule: str, reason: Reason) -> Criterion:
    step = Step(rule, True, reason)
    return lambda request, identity: step


def preflight() -> Criterion:
    """A browser's question before a cross-origin request; it can't carry a cookie (Fetch standard, 4.8)."""
    yes = Step("cors_allow_preflight", True, Reason.PREFLIGHT)
    no = Step("cors_allow_preflight", False, Reason.NOT_PREFLIGHT)

    def is_preflight(request: AccessRequest, identity: Identity | None) -> Step:
        asks = request.method == "OPTIONS" and request.origin and request.access_control_request_method
        return yes if asks else no

    return is_preflight


def any_user() -> Criterion:
    return _of_identity("allow_any_authenticated_user", lambda identity: Reason.SIGNED_IN, {Reason.SIGNED_IN})


def users(entries: Iterable[str]) -> Criterion:
    """By e-mail, by `provider/subject`, or by bare subject.

    An entry with an "@" never matches a bare subject: some providers let people choose it, and it would pass for an address.
    """
    listed = frozenset(entries)
    subjects = frozenset(entry for entry in listed if "@" not in entry)
    # "oidc/ann@a.org" is a user id; a mailbox whose name begins with "oidc/" must not pass for it.
    emails = frozenset(filter(None, (canonical_email(entry) for entry in listed if "/" not in entry)))

    def judge(identity: Identity) -> Reason:
        if identity.rule_email in emails or identity.user_id in listed or identity.subject in subjects:
            return Reason.USER_LISTED
        return Reason.USER_NOT_LISTED if identity.rule_email or not emails else Reason.EMAIL_NOT_USABLE

    return _of_identity("allowed_users", judge, {Reason.USER_LISTED})


def groups(entries: Iterable[str]) -> Criterion:
    """By id; by name or e-mail as far as the identity has them (`Identity.group_names` says for which providers)."""
    listed = frozenset(entries)

    def judge(identity: Identity) -> Reason:
        if not (listed.isdisjoint(identity.group_ids) and listed.isdisjoint(identity.group_names)):
            return Reason.GROUP_LISTED
        return Reason.GROUP_NOT_LISTED if identity.group_ids else Reason.NO_GROUPS

    return _of_identity("allowed_groups", judge, {Reason.GROUP_LISTED})


def domains(entries: Iterable[str]) -> Criterion:
    """The whole domain, never a suffix of it."""
    listed = frozenset(filter(None, map(canonical_domain, entries)))

    def judge(identity: Identity) -> Reason:
        if not identity.rule_email:
            return Reason.EMAIL_NOT_USABLE
        return Reason.DOMAIN_LISTED if identity.rule_email.rpartition("@")[2] in listed else Reason.DOMAIN_NOT_LISTED

    return _of_identity("allowed_domains", judge, {Reason.DOMAIN_LISTED})


def claims(wanted: Mapping[str, Iterable[Any]]) -> Criterion:
    """Any listed value of any listed claim; types count."""
    listed = {name: frozenset(map(_with_type, values)) for name, values in wanted.items()}

    def judge(identity: Identity) -> Reason:
        for name, values in listed.items():
            if any(_with_type(value) in values for value in identity.claims.get(name, ())):
                return Reason.CLAIM_LISTED
        return Reason.CLAIM_NOT_LISTED

    return _of_identity("allowed_idp_claims", judge, {Reason.CLAIM_LISTED})


def _with_type(value: Any) -> tuple[bool, Any]:
    """True equals 1 in Python, but not in JSON."""
    return isinstance(value, bool), value


def _of_identity(rule: str, judge: Callable[[Identity], Reason], holding: set[Reason]) -> Criterion:
    steps = _steps(rule, frozenset(holding))

    def criterion(request: AccessRequest, identity: Identity | None) -> Step:
        return steps[Reason.NOT_SIGNED_IN if identity is None else judge(identity)]

    return criterion


@cache
def _steps(rule: str, holding: frozenset[Reason]) -> dict[Reason, Step]:
    """Made once: decisions are too frequent, and routes too many, to build the same values again."""
    return {reason: Step(rule, reason in holding, reason) for reason in Reason}
