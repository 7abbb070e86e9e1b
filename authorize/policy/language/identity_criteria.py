"""Criteria of the policy language on the identity: e-mail addresses, groups, claims, authentication."""

from collections.abc import Callable
from functools import partial

from authorize.policy.criterion import NO_DATA, Criterion, CriterionDescription, CriterionReasons, EvaluationContext, identity_criterion
from authorize.policy.criterion_text import (
    describe_claim,
    describe_email,
    describe_groups,
    describe_provider,
    describe_user,
    join_values,
    one_of,
)
from authorize.policy.identity import Identity
from authorize.policy.language.text_operators import describe, text_matcher
from authorize.policy.reasons import Reason
from authorize.policy.truth import FALSE, TRUE, UNKNOWN
from authorize.policy.user_entry import EntryKind, parse_user_entry
from config.routes.policy.policy_language import Comparison
from config.routes.policy.policy_route_keys import LISTED
from foundation.claim_values import claim_exists, is_partial, unescape
from foundation.email_address import canonical_domain, canonical_email

USER = CriterionReasons(Reason.USER_LISTED, Reason.USER_NOT_LISTED, Reason.EMAIL_NOT_USABLE)
GROUPS = CriterionReasons(Reason.GROUP_LISTED, Reason.GROUP_NOT_LISTED, Reason.GROUPS_INCOMPLETE, Reason.NO_GROUPS)
DOMAIN = CriterionReasons(Reason.DOMAIN_LISTED, Reason.DOMAIN_NOT_LISTED, Reason.EMAIL_NOT_USABLE)
PROVIDER = CriterionReasons(Reason.PROVIDER_LISTED, Reason.PROVIDER_NOT_LISTED, Reason.NO_PROVIDER)
CLAIM = CriterionReasons(Reason.CLAIM_LISTED, Reason.CLAIM_NOT_LISTED, Reason.CLAIM_MISSING)
EMAIL = CriterionReasons(Reason.EMAIL_LISTED, Reason.EMAIL_NOT_LISTED, Reason.EMAIL_NOT_USABLE)
STRENGTH = CriterionReasons(Reason.ACR_MET, Reason.ACR_NOT_MET, Reason.ACR_UNKNOWN)


def email(comparison: Comparison) -> Criterion:
    operand = comparison.operand
    if comparison.operator in ("is", "in"):
        operand = tuple(canonical_email(entry) for entry in operand)
        if not all(operand):
            raise ValueError("contains an invalid e-mail address")
    elif comparison.operator != "matches":
        operand = tuple(_lower(entry) for entry in operand)
    fits = text_matcher(comparison.operator, operand)

    def evaluate(identity: Identity) -> int:
        if not identity.verified_email:
            return UNKNOWN
        return TRUE if fits(identity.verified_email) else FALSE

    return identity_criterion(describe(comparison, describe_email), EMAIL, evaluate, is_negated=comparison.is_negated)


def _lower(entry: str) -> str:
    """Return the text as addresses are compared: ASCII letters in lower case, the domain as A-labels."""
    head, at, domain = entry.rpartition("@")
    if at and domain:
        domain = canonical_domain(domain) or _require_ascii_domain(domain)
    return "".join(letter.lower() if letter.isascii() else letter for letter in f"{head}{at}{domain}")


def _require_ascii_domain(domain: str) -> str:
    """Return the domain.  Raises ValueError if it is not ASCII, because a partial domain (`ann@`, `ann@corp.`) cannot be converted."""
    if not domain.isascii():
        raise ValueError("write the domain in its ASCII form (xn--...), as addresses are compared")
    return domain


def domain(comparison: Comparison) -> Criterion:
    """Match the domain of the e-mail address.  `is` and `in` compare the complete domain, never a suffix."""
    description, operand = describe(comparison, describe_email), comparison.operand
    if comparison.operator in ("is", "in"):
        operand = tuple(map(canonical_domain, operand))
        if not all(operand):
            raise ValueError("contains an invalid domain; write it as example.com")
        description = CriterionDescription(comparison.key, partial(one_of, operand), describe_email)
    elif comparison.operator == "ends_with":
        operand = tuple(f".{canonical_domain(end[1:])}" for end in operand)
        if "." in operand:
            raise ValueError("contains an invalid domain suffix; write it as .example.com")
    fits = text_matcher(comparison.operator, operand)

    def evaluate(identity: Identity) -> int:
        if not identity.verified_email:
            return UNKNOWN
        return TRUE if fits(identity.verified_email_domain) else FALSE

    return identity_criterion(description, DOMAIN, evaluate, is_negated=comparison.is_negated)


def user(comparison: Comparison) -> Criterion:
    """Match user entries.  An entry has one kind (user_entry.py) and is compared with that kind only.

    Raises ValueError if an entry can match no user.  For an external token the result is UNKNOWN unless an entry names its issuer.
    Otherwise "not alice" would match every token of that issuer.
    """
    listed = frozenset(comparison.operand)
    named = tuple(map(parse_user_entry, listed))
    emails, user_ids, subjects = (frozenset(entry.name for entry in named if entry.kind is kind) for kind in EntryKind)
    issuers = frozenset(entry.provider for entry in named if entry.is_issuer_qualified)

    def evaluate(identity: Identity) -> int:
        if identity.verified_email in emails or identity.user_id in user_ids or identity.unqualified_subject in subjects:
            return TRUE
        if identity.is_external:
            return FALSE if identity.issuer in issuers else UNKNOWN
        return FALSE if identity.verified_email or not emails else UNKNOWN

    description = CriterionDescription(comparison.key, partial(one_of, listed), describe_user)
    return identity_criterion(description, USER, evaluate, is_negated=comparison.is_negated)


def provider(comparison: Comparison) -> Criterion:
    """Match the identity provider by id.  UNKNOWN for callers of no provider."""
    ids = frozenset(comparison.operand)

    def evaluate(identity: Identity) -> int:
        if not identity.is_provider_user:
            return UNKNOWN
        return TRUE if identity.provider in ids else FALSE

    return identity_criterion(describe(comparison, describe_provider), PROVIDER, evaluate, is_negated=comparison.is_negated)


def groups(comparison: Comparison) -> Criterion:
    """Match groups by id, and by name or e-mail address if `Identity.group_names` has them."""
    if comparison.operator in ("is", "in"):
        listed = frozenset(comparison.operand)

        def is_listed(identity: Identity) -> bool:
            return not (listed.isdisjoint(identity.group_ids) and listed.isdisjoint(identity.group_names))

        description, holds = CriterionDescription(comparison.key, partial(one_of, listed), describe_groups), is_listed
    else:
        fits = text_matcher(comparison.operator, comparison.operand)

        def is_alike(identity: Identity) -> bool:
            return any(map(fits, identity.group_ids)) or any(map(fits, identity.group_names))

        description, holds = describe(comparison, describe_groups), is_alike

    def evaluate(identity: Identity) -> int:
        if holds(identity):
            return TRUE
        if identity.groups_incomplete or identity.is_external:  # an unknown group may be the one
            return UNKNOWN
        return FALSE if identity.group_ids else NO_DATA

    return identity_criterion(description, GROUPS, evaluate, is_negated=comparison.is_negated)


def claim(comparison: Comparison) -> Criterion:
    name = comparison.argument

    def actual(context: EvaluationContext) -> str:
        return f"{name}: {describe_claim(context.identity.claims.get(name) if context.identity else None)}"

    description = describe(comparison, actual)
    if comparison.operator == LISTED:
        description = CriterionDescription(comparison.key, lambda: f"{name}: {join_values(comparison.operand)}", actual)
    evaluate = _exists(name, comparison.operand) if comparison.operator == "exists" else _claim_evaluator(comparison)
    return identity_criterion(description, CLAIM, evaluate, is_negated=comparison.is_negated)


def _exists(name: str, should_exist: bool) -> Callable[[Identity], int]:
    """Evaluate whether the claim exists.

    UNKNOWN if only a claim with other escapes of dots exists, because the rule may refer to it.
    """
    results = {True: TRUE if should_exist else FALSE, False: FALSE if should_exist else TRUE, None: UNKNOWN}
    without_escapes = unescape(name)

    def evaluate(identity: Identity) -> int:
        values = identity.claims.get(name)
        if values is None and without_escapes in identity.claims:
            return UNKNOWN
        return results[False if values is None else claim_exists(values)]

    return evaluate


def _claim_evaluator(comparison: Comparison) -> Callable[[Identity], int]:
    """Match any value of the claim, by type and value.

    Values that cannot be compared make the result UNKNOWN unless another one matches.
    """
    name = comparison.argument
    if comparison.operator in ("is", "in", LISTED):
        in_doubt = FALSE if comparison.operator == LISTED else UNKNOWN
        # True equals 1 in Python, but not in JSON.
        truths = frozenset(value for value in comparison.operand if isinstance(value, bool))
        others = frozenset(value for value in comparison.operand if not isinstance(value, bool))

        def evaluate_values(identity: Identity) -> int:
            values = identity.claims.get(name, ())
            if not values:
                return in_doubt
            for value in values:  # a loop takes half the time of any() with a generator
                if value in (truths if value is True or value is False else others):
                    return TRUE
            return in_doubt if is_partial(values) else FALSE

        return evaluate_values
    fits = text_matcher(comparison.operator, comparison.operand)

    def evaluate_texts(identity: Identity) -> int:
        values = identity.claims.get(name, ())
        texts = [value for value in values if isinstance(value, str)]
        if any(map(fits, texts)):
            return TRUE
        return FALSE if texts and len(texts) == len(values) and not is_partial(values) else UNKNOWN

    return evaluate_texts


def acr(comparison: Comparison) -> Criterion:
    """Match the authentication context class (OpenID Connect Core 2), the strength of the authentication."""
    listed = frozenset(comparison.operand)

    def evaluate(identity: Identity) -> int:
        # The `acr` of an external token describes a sign-in at another issuer.
        found = () if identity.is_external else identity.claims.get("acr", ())
        if len(found) != 1 or not isinstance(found[0], str) or is_partial(found):
            return UNKNOWN
        return TRUE if found[0] in listed else FALSE

    return identity_criterion(describe(comparison, _compared_acr), STRENGTH, evaluate, is_negated=comparison.is_negated)


def _compared_acr(context: EvaluationContext) -> str:
    return describe_claim(context.identity.claims.get("acr") if context.identity else None)
