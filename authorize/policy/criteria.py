"""Criteria of a route's own keys, one small function each: whether it holds for a case, and why (not)."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from authorize.policy.criterion import NOTHING, Case, Criterion, CriterionReasons, CriterionWords, TraceStep, on_person, on_request
from authorize.policy.identity import Identity
from authorize.policy.reasons import Reason
from authorize.policy.truth import FALSE, TRUE, UNKNOWN
from authorize.policy.user_entry import EntryKind, user_entry
from foundation.claim_values import UnescapedValues, is_partial
from foundation.email_address import canonical_domain

__all__ = ["NOTHING", "Case", "Criterion", "CriterionReasons", "CriterionWords", "Reason", "TraceStep", "on_person", "on_request"]

USER = CriterionReasons(Reason.USER_LISTED, Reason.USER_NOT_LISTED, Reason.EMAIL_NOT_USABLE)
GROUPS = CriterionReasons(Reason.GROUP_LISTED, Reason.GROUP_NOT_LISTED, Reason.GROUPS_UNTOLD, Reason.NO_GROUPS)
DOMAIN = CriterionReasons(Reason.DOMAIN_LISTED, Reason.DOMAIN_NOT_LISTED, Reason.EMAIL_NOT_USABLE)
PROVIDER = CriterionReasons(Reason.PROVIDER_LISTED, Reason.PROVIDER_NOT_LISTED, Reason.PROVIDER_OF_NOBODY)
TRUST = CriterionReasons(
    Reason.CERTIFICATE_GOOD, Reason.CERTIFICATE_NOT_TRUSTED, Reason.CERTIFICATE_NOT_TRUSTED, Reason.CERTIFICATE_MISSING
)
CLAIM = CriterionReasons(Reason.CLAIM_LISTED, Reason.CLAIM_NOT_LISTED, Reason.CLAIM_MISSING)


def always(rule: str, reason: Reason) -> Criterion:
    return on_request(CriterionWords(rule, "true", lambda case: "true"), CriterionReasons(reason, reason, reason), lambda case: TRUE)


def preflight() -> Criterion:
    """CORS preflight: a browser's question before a cross-origin request; it can't carry a cookie (Fetch standard, 4.8)."""

    def judge(case: Case) -> int:
        request = case.request
        asks = request.method == "OPTIONS" and request.origin and request.access_control_request_method
        return TRUE if asks else FALSE

    wants = "OPTIONS with Origin and Access-Control-Request-Method"
    words = CriterionWords("cors_allow_preflight", wants, lambda case: case.request.method)
    return on_request(words, CriterionReasons(Reason.PREFLIGHT, Reason.NOT_PREFLIGHT, Reason.NOT_PREFLIGHT), judge)


def any_user(rule: str = "allow_any_authenticated_user") -> Criterion:
    words = CriterionWords(rule, "any signed-in user", compared_person)
    answers = CriterionReasons(Reason.SIGNED_IN, Reason.NOT_SIGNED_IN, Reason.NOT_SIGNED_IN)
    return on_person(words, answers, lambda identity: FALSE if identity.is_foreign else TRUE)


def users(entries: Iterable[str], rule: str = "allowed_users", *, is_negated: bool = False) -> Criterion:
    """Each entry names one kind of thing (user_entry.py) and is compared with that alone; ValueError where one names nobody.

    Of a token of another issuer a list that does not name that issuer says nothing: "not alice" would be whoever it gives a token.
    """
    listed = frozenset(entries)
    named = tuple(map(user_entry, listed))
    emails, user_ids, subjects = (frozenset(entry.name for entry in named if entry.kind is kind) for kind in EntryKind)
    issuers = frozenset(entry.provider for entry in named if entry.names_an_issuer)

    def judge(identity: Identity) -> int:
        if identity.rule_email in emails or identity.user_id in user_ids or identity.own_subject in subjects:
            return TRUE
        if identity.is_foreign:
            return FALSE if identity.issuer in issuers else UNKNOWN
        return FALSE if identity.rule_email or not emails else UNKNOWN

    return on_person(CriterionWords(rule, partial(wanted, listed), compared_person), USER, judge, is_negated=is_negated)


def groups(entries: Iterable[str], rule: str = "allowed_groups", *, is_negated: bool = False) -> Criterion:
    """Groups by id; by name or e-mail as far as the identity has them (`Identity.group_names` says for which providers)."""
    listed = frozenset(entries)

    def judge(identity: Identity) -> int:
        if not (listed.isdisjoint(identity.group_ids) and listed.isdisjoint(identity.group_names)):
            return TRUE
        return no_group_fits(identity)

    return on_person(CriterionWords(rule, partial(wanted, listed), compared_groups), GROUPS, judge, is_negated=is_negated)


def no_group_fits(identity: Identity) -> int:
    """Answer on somebody none of whose known groups is asked for: another may be."""
    if identity.has_untold_groups or identity.is_foreign:
        return UNKNOWN
    return FALSE if identity.group_ids else NOTHING


def domains(entries: Iterable[str], rule: str = "allowed_domains", *, is_negated: bool = False) -> Criterion:
    """Domains of e-mail addresses: the whole domain, never a suffix of it."""
    listed = frozenset(filter(None, map(canonical_domain, entries)))

    def judge(identity: Identity) -> int:
        if not identity.rule_email:
            return UNKNOWN
        return TRUE if identity.rule_domain in listed else FALSE

    return on_person(CriterionWords(rule, partial(wanted, listed), compared_email), DOMAIN, judge, is_negated=is_negated)


def signed_in_elsewhere(ids: Iterable[str], rule: str = "identity_providers") -> Criterion:
    """People of another provider than these.  Programs are of none, and are named by themselves."""
    listed = frozenset(ids)

    def judge(identity: Identity) -> int:
        return TRUE if identity.is_own and identity.provider not in listed else FALSE

    answers = CriterionReasons(Reason.SIGNED_IN_ELSEWHERE, Reason.PROVIDER_LISTED, Reason.PROVIDER_OF_NOBODY)
    return on_person(CriterionWords(rule, partial(wanted, listed), compared_provider), answers, judge)


def claims(listed_values: Mapping[str, Iterable[Any]], rule: str = "allowed_idp_claims") -> Criterion:
    """Claims: any listed value of any listed claim; types count."""
    listed = {name: frozenset(map(with_type, values)) for name, values in listed_values.items()}

    def judge(identity: Identity) -> int:
        for name, values in listed.items():
            if any(with_type(value) in values for value in identity.claims.get(name, ())):
                return TRUE
        return FALSE

    def compared(case: Case) -> str:
        found = case.identity.claims if case.identity else {}
        return ", ".join(f"{name}: {shown_claim(found.get(name))}" for name in listed)

    def wants() -> str:
        return "; ".join(f"{name}: {shown(value for _, value in values)}" for name, values in listed.items())

    return on_person(CriterionWords(rule, wants, compared), CLAIM, judge)


def certificate(authority_id: str, rule: str) -> Criterion:
    """Client certificate: a chain to this authority, verified for this moment (authorize/identity/client_certificates.py)."""

    def judge(case: Case) -> int:
        shown_certificate = case.request.client_certificate
        if shown_certificate is None:
            return NOTHING
        return TRUE if shown_certificate.verdicts.get(authority_id) == "" else FALSE

    def compared(case: Case) -> str:
        found = case.request.client_certificate
        if found is None:
            return "no certificate"
        return f"{found.subject} ({found.fingerprint}): {found.verdicts.get(authority_id, 'not verified') or 'good'}"

    return on_request(CriterionWords(rule, "a client certificate issued by the route's CA", compared), TRUST, judge)


def with_type(value: Any) -> tuple[bool, Any]:
    """Value with its type, for comparing: True equals 1 in Python, but not in JSON."""
    return isinstance(value, bool), value


# What explanations show; nothing here runs for a request.


def wanted(values: Iterable[Any]) -> str:
    return f"one of {shown(values)}"


def shown(values: Iterable[Any]) -> str:
    return ", ".join(sorted(map(str, values))) or "nothing"


def shown_claim(values: tuple[Any, ...] | None) -> str:
    if type(values) is UnescapedValues:
        return "unknown: a dot of the claim's name needs a backslash"
    if values is None or not is_partial(values):
        return shown(values or ())
    return ", ".join([*sorted(map(str, values)), "a value that can't be compared"])


def compared_person(case: Case) -> str:
    person = case.identity
    return "nobody" if person is None else ", ".join(dict.fromkeys(filter(None, (person.rule_email, person.user_id, person.own_subject))))


def compared_email(case: Case) -> str:
    return "nobody" if case.identity is None else case.identity.rule_email or "no usable e-mail address"


def compared_provider(case: Case) -> str:
    return "nobody" if case.identity is None else case.identity.provider


def compared_groups(case: Case) -> str:
    return "nobody" if case.identity is None else shown(case.identity.group_ids | case.identity.group_names)
