"""Criteria of the policy language on the OAuth client that acts for the user, and on the scopes of its access token."""

from collections.abc import Callable

from authorize.policy.criterion import NOT_APPLICABLE, Criterion, CriterionReasons, EvaluationContext, identity_criterion
from authorize.policy.criterion_text import join_values
from authorize.policy.identity import Identity
from authorize.policy.language.text_operators import describe, text_matcher
from authorize.policy.reasons import Reason
from authorize.policy.truth import FALSE, TRUE
from config.routes.policy.policy_language import Comparison
from foundation.oauth_client_ids import document_host

CLIENT = CriterionReasons(Reason.CLIENT_LISTED, Reason.CLIENT_NOT_LISTED, Reason.CLIENT_NOT_LISTED, not_applicable=Reason.NO_CLIENT)
SCOPE = CriterionReasons(Reason.SCOPE_LISTED, Reason.SCOPE_NOT_LISTED, Reason.SCOPE_NOT_LISTED, not_applicable=Reason.NO_SCOPES)
_NO_CLIENT = "no client"


# enforcement-point: Authorization: OAuth clients in policy
def client(comparison: Comparison) -> Criterion:
    """Match the id of the OAuth client, or the verified domain of its client ID metadata document.

    A caller without a client (a browser, a service account's own token, a token of another issuer) is NOT_APPLICABLE, also to a negated
    operator.  For a metadata document, a value with a slash is compared with the URL, and any other with the domain: a domain must not
    match the path that the publisher of another document chose.
    """
    operator, operand = comparison.operator, comparison.operand
    fits_id = text_matcher(operator, operand)
    fits_url = _matcher(operator, [value for value in operand if "/" in value])
    domains = [value for value in operand if "/" not in value]
    fits_domain = _matcher(operator, domains if operator == "matches" else [value.lower() for value in domains])

    def evaluate(identity: Identity) -> int:
        if not (client_id := identity.client_id):
            return NOT_APPLICABLE
        domain = document_host(client_id)
        fits = fits_url(client_id) or fits_domain(domain) if domain else fits_id(client_id)
        return TRUE if fits else FALSE

    return identity_criterion(describe(comparison, _describe_client), CLIENT, evaluate, is_negated=comparison.is_negated)


def _matcher(operator: str, operand: list[str]) -> Callable[[str], bool]:
    return text_matcher(operator, operand) if operand else lambda text: False


# enforcement-point: Authorization: Scopes in policy
def scope(comparison: Comparison) -> Criterion:
    """Match any scope of the access token.  A caller without a client has none: NOT_APPLICABLE, also to a negated operator."""
    fits = text_matcher(comparison.operator, comparison.operand)

    def evaluate(identity: Identity) -> int:
        if not identity.client_id:
            return NOT_APPLICABLE
        return TRUE if any(map(fits, identity.scopes)) else FALSE

    return identity_criterion(describe(comparison, _describe_scopes), SCOPE, evaluate, is_negated=comparison.is_negated)


def _describe_client(context: EvaluationContext) -> str:
    return (context.identity.client_id if context.identity is not None else "") or _NO_CLIENT


def _describe_scopes(context: EvaluationContext) -> str:
    identity = context.identity
    return _NO_CLIENT if identity is None or not identity.client_id else join_values(identity.scopes)
