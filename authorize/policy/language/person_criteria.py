"""Criteria of the policy language about the person: addresses, groups, claims, how they signed in."""

from collections.abc import Callable, Iterable

from authorize.policy import criteria
from authorize.policy.criteria import Case, Criterion, CriterionReasons, Reason, on_person, shown_claim
from authorize.policy.identity import Identity
from authorize.policy.language.text_operators import described, text_test
from authorize.policy.truth import FALSE, TRUE, UNKNOWN
from config.routes.policy.language import Comparison
from foundation.claim_values import claim_exists, is_partial, unescaped
from foundation.email_address import canonical_domain, canonical_email

EMAIL = CriterionReasons(Reason.EMAIL_LISTED, Reason.EMAIL_NOT_LISTED, Reason.EMAIL_NOT_USABLE)
STRENGTH = CriterionReasons(Reason.STRENGTH_ENOUGH, Reason.STRENGTH_OTHER, Reason.STRENGTH_UNKNOWN)


def email(comparison: Comparison) -> Criterion:
    operand = comparison.operand
    if comparison.operator in ("is", "in"):
        operand = tuple(canonical_email(entry) for entry in operand)
        if not all(operand):
            raise ValueError("contains an invalid e-mail address")
    elif comparison.operator != "matches":
        operand = tuple(_lower(entry) for entry in operand)
    fits = text_test(comparison.operator, operand)

    def judge(identity: Identity) -> int:
        if not identity.rule_email:
            return UNKNOWN
        return TRUE if fits(identity.rule_email) else FALSE

    return on_person(described(comparison, criteria.compared_email), EMAIL, judge, is_negated=comparison.is_negated)


def _lower(entry: str) -> str:
    """As addresses are compared: ASCII letters small, the domain as A-labels."""
    head, at, domain = entry.rpartition("@")
    if at and domain:
        domain = canonical_domain(domain) or _refuse_part(domain)
    return "".join(letter.lower() if letter.isascii() else letter for letter in f"{head}{at}{domain}")


def _refuse_part(domain: str) -> str:
    """The beginning of a domain (`ann@`, `ann@corp.`) is no domain yet."""
    if not domain.isascii():
        raise ValueError("write the domain in its ASCII form (xn--...), as addresses are compared")
    return domain


def domain(comparison: Comparison) -> Criterion:
    if comparison.operator in ("is", "in"):
        if not all(map(canonical_domain, comparison.operand)):
            raise ValueError("contains an invalid domain; write it as example.com")
        return criteria.domains(comparison.operand, comparison.key, is_negated=comparison.is_negated)
    operand = comparison.operand
    if comparison.operator == "ends_with":
        operand = tuple(f".{canonical_domain(end[1:])}" for end in operand)
        if "." in operand:
            raise ValueError("contains an invalid domain suffix; write it as .example.com")
    fits = text_test(comparison.operator, operand)

    def judge(identity: Identity) -> int:
        if not identity.rule_email:
            return UNKNOWN
        return TRUE if fits(identity.rule_domain) else FALSE

    return on_person(described(comparison, criteria.compared_email), criteria.DOMAIN, judge, is_negated=comparison.is_negated)


def user(comparison: Comparison) -> Criterion:
    return criteria.users(comparison.operand, comparison.key, is_negated=comparison.is_negated)


def provider(comparison: Comparison) -> Criterion:
    """Identity provider by its id; of whom none has signed in it says nothing."""
    ids = frozenset(comparison.operand)

    def judge(identity: Identity) -> int:
        if not identity.is_own:
            return UNKNOWN
        return TRUE if identity.provider in ids else FALSE

    return on_person(described(comparison, criteria.compared_provider), criteria.PROVIDER, judge, is_negated=comparison.is_negated)


def groups(comparison: Comparison) -> Criterion:
    if comparison.operator in ("is", "in"):
        return criteria.groups(comparison.operand, comparison.key, is_negated=comparison.is_negated)
    fits = text_test(comparison.operator, comparison.operand)

    def judge(identity: Identity) -> int:
        if any(map(fits, identity.group_ids)) or any(map(fits, identity.group_names)):
            return TRUE
        return criteria.no_group_fits(identity)

    return on_person(described(comparison, criteria.compared_groups), criteria.GROUPS, judge, is_negated=comparison.is_negated)


def claim(comparison: Comparison) -> Criterion:
    name = comparison.argument

    def compared(case: Case) -> str:
        return f"{name}: {shown_claim(case.identity.claims.get(name) if case.identity else None)}"

    judge = _exists(name, comparison.operand) if comparison.operator == "exists" else _claim_judge(comparison)
    return on_person(described(comparison, compared), criteria.CLAIM, judge, is_negated=comparison.is_negated)


def _exists(name: str, should_exist: bool) -> Callable[[Identity], int]:
    """Judge whether the person has the claim.  Where only a claim fits whose dots are escaped otherwise, it is not known: the rule may
    mean that one.
    """
    answers = {True: TRUE if should_exist else FALSE, False: FALSE if should_exist else TRUE, None: UNKNOWN}
    without_escapes = unescaped(name)

    def judge(identity: Identity) -> int:
        values = identity.claims.get(name)
        if values is None and without_escapes in identity.claims:
            return UNKNOWN
        return answers[False if values is None else claim_exists(values)]

    return judge


def _claim_judge(comparison: Comparison) -> Callable[[Identity], int]:
    """Any value of the claim; one that can't be compared leaves in doubt what the others don't settle."""
    name = comparison.argument
    if comparison.operator in ("is", "in"):
        # As `with_type` has it, without a tuple for each value.
        truths = frozenset(value for value in comparison.operand if isinstance(value, bool))
        others = frozenset(value for value in comparison.operand if not isinstance(value, bool))

        def judge_values(identity: Identity) -> int:
            values = identity.claims.get(name, ())
            if not values:
                return UNKNOWN
            for value in values:  # a loop costs half of what any() over a generator does
                if value in (truths if value is True or value is False else others):
                    return TRUE
            return UNKNOWN if is_partial(values) else FALSE

        return judge_values
    fits = text_test(comparison.operator, comparison.operand)

    def judge_texts(identity: Identity) -> int:
        values = identity.claims.get(name, ())
        texts = [value for value in values if isinstance(value, str)]
        if any(map(fits, texts)):
            return TRUE
        return FALSE if texts and len(texts) == len(values) and not is_partial(values) else UNKNOWN

    return judge_texts


def acr(comparison: Comparison) -> Criterion:
    """Authentication context: how strongly the provider says that it knows the person (OpenID Connect Core 2)."""
    words = described(comparison, compared_acr)
    return on_person(words, STRENGTH, acr_among(comparison.operand), is_negated=comparison.is_negated)


def acr_among(values: Iterable[str]) -> Callable[[Identity], int]:
    listed = frozenset(values)

    def judge(identity: Identity) -> int:
        # Of a token of another issuer it would say how somebody signed in there.
        found = () if identity.is_foreign else identity.claims.get("acr", ())
        if len(found) != 1 or not isinstance(found[0], str) or is_partial(found):
            return UNKNOWN
        return TRUE if found[0] in listed else FALSE

    return judge


def compared_acr(case: Case) -> str:
    return shown_claim(case.identity.claims.get("acr") if case.identity else None)
