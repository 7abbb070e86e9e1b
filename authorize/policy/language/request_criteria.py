"""Criteria of the policy language on the request: client, address, method, headers and path."""

import ipaddress
import itertools
from collections.abc import Callable

from authorize.policy.criterion import TOO_MANY_INTERPRETATIONS, Criterion, CriterionReasons, EvaluationContext, request_criterion
from authorize.policy.language.text_operators import describe, text_matcher
from authorize.policy.paths.canonical import canonical_setting_path, canonical_setting_prefix
from authorize.policy.paths.interpretations import configured_forms, decoded_regex
from authorize.policy.reasons import Reason
from authorize.policy.truth import FALSE, TRUE, UNKNOWN
from config.routes.policy.policy_language import Comparison
from foundation.bounded_cache import bounded_lru_cache
from foundation.errors import BadRequest

# Headers with secret values are compared, and never displayed.
_SECRET_NAME_PARTS = ("authorization", "cookie", "token", "secret", "key", "password")

ADDRESS = CriterionReasons(Reason.ADDRESS_LISTED, Reason.ADDRESS_NOT_LISTED, Reason.ADDRESS_UNKNOWN)
METHOD = CriterionReasons(Reason.METHOD_LISTED, Reason.METHOD_NOT_LISTED, Reason.METHOD_UNKNOWN)
PATH = CriterionReasons(Reason.PATH_LISTED, Reason.PATH_NOT_LISTED, Reason.PATH_AMBIGUOUS)
HEADER = CriterionReasons(Reason.HEADER_LISTED, Reason.HEADER_NOT_LISTED, Reason.HEADER_UNKNOWN)
CERTIFICATE = CriterionReasons(Reason.CERTIFICATE_LISTED, Reason.CERTIFICATE_NOT_LISTED, Reason.CERTIFICATE_MISSING)


def source_ip(comparison: Comparison) -> Criterion:
    networks = comparison.operand

    @bounded_lru_cache(4096, max_key_length=64)
    def is_inside(text: str) -> int:
        address = ipaddress.ip_address(text)
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return TRUE if any(address in network for network in networks) else FALSE

    def evaluate(context: EvaluationContext) -> int:
        address = context.request.source_ip
        return is_inside(address) if address else UNKNOWN

    description = describe(comparison, lambda context: context.request.source_ip or "an unknown address")
    return request_criterion(description, ADDRESS, evaluate, is_negated=comparison.is_negated)


def http_method(comparison: Comparison) -> Criterion:
    listed = frozenset(comparison.operand)

    def evaluate(context: EvaluationContext) -> int:
        # In forward auth the method is known only if the front proxy reports it.
        method = context.request.method
        return UNKNOWN if not method else TRUE if method in listed else FALSE

    description = describe(comparison, lambda context: context.request.method or "an unknown method")
    return request_criterion(description, METHOD, evaluate, is_negated=comparison.is_negated)


def http_path(comparison: Comparison) -> Criterion:
    """Match the canonical path.  UNKNOWN if its interpretations give different results."""
    canonical = {"is": canonical_setting_path, "in": canonical_setting_path, "starts_with": canonical_setting_prefix}
    try:
        operand = tuple(map(canonical.get(comparison.operator, str), comparison.operand))
    except BadRequest as error:
        raise ValueError(str(error)) from None
    is_expression = comparison.operator == "matches"
    forms = _decoded_expressions(operand) if is_expression else tuple(dict.fromkeys(itertools.chain(*map(configured_forms, operand))))
    fits, fits_interpretation = text_matcher(comparison.operator, operand), text_matcher(comparison.operator, forms)
    has_escapes = forms != operand and not is_expression

    def evaluate(context: EvaluationContext) -> int:
        path, others = context.request.path, context.path_interpretations
        if others is None:
            others = context.load_path_interpretations()
        holds = fits(path)
        if others is TOO_MANY_INTERPRETATIONS:
            return UNKNOWN
        if (others or has_escapes) and any(fits_interpretation(interpretation) is not holds for interpretation in others or (path,)):
            return UNKNOWN
        return TRUE if holds else FALSE

    def actual(context: EvaluationContext) -> str:
        path, others = context.request.path, context.load_path_interpretations()
        if others is TOO_MANY_INTERPRETATIONS:
            return f"{path}, which is ambiguous"
        other = next(
            (interpretation for interpretation in others or (path,) if fits_interpretation(interpretation) is not fits(path)), None
        )
        return path if other is None else f"{path}, which an upstream may interpret as {other}"

    return request_criterion(describe(comparison, actual), PATH, evaluate, is_negated=comparison.is_negated)


def _decoded_expressions(expressions: tuple[str, ...]) -> tuple[str, ...]:
    """Return the expressions and their decoded forms.  An invalid decoded form is omitted, so that the result becomes UNKNOWN."""
    return tuple(dict.fromkeys((*expressions, *filter(_is_expression, map(decoded_regex, expressions)))))


def _is_expression(text: str) -> bool:
    import re2  # 2 MiB, for expressions alone

    try:
        re2.compile(text)
    except re2.error:
        return False
    return True


def http_header(comparison: Comparison) -> Criterion:
    """Match a header.  A repeated header has no value (`EvaluationContext.load_header_values`)."""
    name = comparison.argument.encode("ascii")

    def actual(context: EvaluationContext) -> str:
        is_sent = any(key == name for key, _ in context.request.headers)
        return f"{comparison.argument}: {'sent, and not shown' if is_sent else 'nothing'}"

    evaluate = _header_exists(name, comparison.operand) if comparison.operator == "exists" else _header_evaluator(name, comparison)
    # Rules may compare headers with keys, so neither the expected value nor the actual one is shown.
    description = describe(comparison, actual, is_secret=comparison.operator != "exists")
    return request_criterion(description, HEADER, evaluate, is_negated=comparison.is_negated)


def _header_exists(name: bytes, should_exist: bool) -> Callable[[EvaluationContext], int]:
    return lambda context: TRUE if (name in (context.header_values or context.load_header_values())) is should_exist else FALSE


def _header_evaluator(name: bytes, comparison: Comparison) -> Callable[[EvaluationContext], int]:
    fits = text_matcher(comparison.operator, comparison.operand)
    # A listed value needs no decoding to match.  Any other must be valid text before it can be a mismatch.
    listed = frozenset(text.encode() for text in comparison.operand) if comparison.operator in ("is", "in") else frozenset()

    def evaluate(context: EvaluationContext) -> int:
        value = (context.header_values or context.load_header_values()).get(name)
        if value is None:
            return UNKNOWN
        return TRUE if value in listed or fits(value.decode("utf-8")) else FALSE

    return evaluate


def is_secret_header(name: str) -> bool:
    """Return whether the value of this header is compared only, and never displayed or stored."""
    return any(word in name for word in _SECRET_NAME_PARTS)


def client_certificate(comparison: Comparison) -> Criterion:
    listed = frozenset(comparison.operand)
    is_fingerprint = comparison.operator == "fingerprint"

    def evaluate(context: EvaluationContext) -> int:
        certificate = context.request.client_certificate
        if certificate is None:
            return UNKNOWN
        return TRUE if (certificate.fingerprint if is_fingerprint else certificate.spki_hash) in listed else FALSE

    def actual(context: EvaluationContext) -> str:
        certificate = context.request.client_certificate
        return "no certificate" if certificate is None else certificate.fingerprint if is_fingerprint else certificate.spki_hash

    return request_criterion(describe(comparison, actual), CERTIFICATE, evaluate, is_negated=comparison.is_negated)
