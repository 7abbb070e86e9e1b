"""Criteria of route keys (config/routes/policy/policy_route_keys.py) and settings, which a written policy cannot use."""

from datetime import timedelta

from authorize.policy.criterion import (
    NO_DATA,
    Criterion,
    CriterionDescription,
    CriterionReasons,
    EvaluationContext,
    identity_criterion,
    request_criterion,
)
from authorize.policy.criterion_text import describe_provider, describe_user, one_of
from authorize.policy.identity import Identity
from authorize.policy.reasons import Reason
from authorize.policy.truth import FALSE, TRUE, UNKNOWN
from config.routes.policy.policy_language import Comparison

AGE = CriterionReasons(Reason.SIGN_IN_RECENT, Reason.SIGN_IN_TOO_OLD, Reason.AGE_UNKNOWN)
PREFLIGHT = CriterionReasons(Reason.PREFLIGHT, Reason.NOT_PREFLIGHT, Reason.NOT_PREFLIGHT)
SIGNED_IN = CriterionReasons(Reason.SIGNED_IN, Reason.NOT_SIGNED_IN, Reason.NOT_SIGNED_IN)
ELSEWHERE = CriterionReasons(Reason.OTHER_PROVIDER, Reason.PROVIDER_LISTED, Reason.NO_PROVIDER)
TRUST = CriterionReasons(
    Reason.CERTIFICATE_VALID, Reason.CERTIFICATE_NOT_TRUSTED, Reason.CERTIFICATE_NOT_TRUSTED, Reason.CERTIFICATE_MISSING
)


def public(comparison: Comparison) -> Criterion:
    return _always(comparison, Reason.PUBLIC)


def redirect(comparison: Comparison) -> Criterion:
    return _always(comparison, Reason.REDIRECT)


def _always(comparison: Comparison, reason: Reason) -> Criterion:
    description = CriterionDescription(comparison.key, "true", lambda context: "true")
    return request_criterion(description, CriterionReasons(reason, reason, reason), lambda context: TRUE)


def cors_preflight(comparison: Comparison) -> Criterion:
    """Match a CORS preflight, which a browser sends before a cross-origin request.  It never has a cookie (Fetch standard, 4.8)."""

    def evaluate(context: EvaluationContext) -> int:
        request = context.request
        is_preflight = request.method == "OPTIONS" and request.origin and request.access_control_request_method
        return TRUE if is_preflight else FALSE

    expected = "OPTIONS with Origin and Access-Control-Request-Method"
    return request_criterion(CriterionDescription(comparison.key, expected, lambda context: context.request.method), PREFLIGHT, evaluate)


def authenticated_user(comparison: Comparison) -> Criterion:
    description = CriterionDescription(comparison.key, "any signed-in user", describe_user)
    return identity_criterion(description, SIGNED_IN, lambda identity: FALSE if identity.is_external else TRUE)


def other_provider(comparison: Comparison) -> Criterion:
    """Match users of other providers.  Service accounts have no provider and are matched by id."""
    listed = frozenset(comparison.operand)

    def evaluate(identity: Identity) -> int:
        return TRUE if identity.is_provider_user and identity.provider not in listed else FALSE

    return identity_criterion(CriterionDescription(comparison.key, lambda: one_of(listed), describe_provider), ELSEWHERE, evaluate)


def sign_in_age(comparison: Comparison) -> Criterion:
    """Match the age of the authentication at the provider, which a step-up renews.  `session_age` is that of the session."""
    limit = comparison.operand.total_seconds()

    def evaluate(context: EvaluationContext) -> int:
        auth_time = context.identity.auth_time if context.identity is not None else 0.0
        if auth_time <= 0.0:
            return UNKNOWN
        return TRUE if context.now - auth_time <= limit else FALSE

    def actual(context: EvaluationContext) -> str:
        if context.identity is None or context.identity.auth_time <= 0.0:
            return "an unknown age"
        return str(timedelta(seconds=int(max(context.now - context.identity.auth_time, 0.0))))

    return request_criterion(
        CriterionDescription(comparison.key, f"at most {comparison.operand}", actual), AGE, evaluate, needs_identity=True
    )


def trusted_certificate(comparison: Comparison) -> Criterion:
    """Match a client certificate with a chain to this authority, verified at `now` (authorize/identity/client_certificates.py)."""
    authority_id = comparison.operand

    def evaluate(context: EvaluationContext) -> int:
        client_certificate = context.request.client_certificate
        if client_certificate is None:
            return NO_DATA
        return TRUE if client_certificate.verification_errors.get(authority_id) == "" else FALSE

    def actual(context: EvaluationContext) -> str:
        found = context.request.client_certificate
        if found is None:
            return "no certificate"
        return f"{found.subject} ({found.fingerprint}): {found.verification_errors.get(authority_id, 'not verified') or 'good'}"

    return request_criterion(CriterionDescription(comparison.key, "a client certificate issued by the route's CA", actual), TRUST, evaluate)
