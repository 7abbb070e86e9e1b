"""Compiled route: a route of the configuration, prepared to match paths and evaluate rules."""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from authorize.policy.criterion import Evaluation
from authorize.policy.language.criterion_registry import TIME_DEPENDENT
from authorize.policy.language.expression_compiler import InvalidOperand, compile_block
from authorize.policy.paths.canonical import canonical_setting_path, canonical_setting_prefix
from authorize.policy.paths.interpretations import configured_forms, decoded_regex
from authorize.policy.user_entry import parse_user_entry
from config.routes.policy.policy_language import AUTHENTICATION, ENFORCE, Block, Comparison, iter_comparisons
from config.routes.route import Route
from config.routes.route_access_requests import AccessRequestSettings
from foundation.email_address import canonical_domain
from foundation.errors import BadRequest, ConfigError, Problem

Matcher = Callable[[str], bool]

CONDITIONS = ("path", "prefix", "regex")
_ANONYMOUS_CRITERIA = frozenset({"public", "redirect", "cors_preflight"})  # criteria that allow anonymous requests
_AUTHENTICATION_CLAIMS = frozenset({"acr", "amr", "auth_time"})


@dataclass(frozen=True, slots=True)
class ClientAuthority:
    """Authorities that a route trusts to issue client certificates.  `id` is the SHA-256 of their PEM."""

    id: str
    pem: bytes

    @classmethod
    def from_pem(cls, pem: bytes) -> "ClientAuthority":
        return cls(hashlib.sha256(pem).hexdigest(), pem)


@dataclass(frozen=True, eq=False)
class CompiledRoute:
    """Compiled route.

    `matched_prefix` is the canonical `path` or `prefix` that `prefix_rewrite` replaces, "" without either.  Properties are computed on
    first use, because most of ten thousand routes are never requested.
    """

    route: Route
    matched_prefix: str
    matches: Matcher  # the canonical path
    matches_interpretation: Matcher  # an interpretation of another route's path
    owns_interpretation: Matcher  # an interpretation of a path that this route matches
    matches_any_path: bool  # it has no condition on the path
    regex_has_escapes: bool  # its `regex` contains escapes or a percent sign
    has_escapes: bool  # its `path` or `prefix` has escapes
    client_ca: ClientAuthority | None  # required issuer of the client certificate
    certificate_requirements: tuple[Evaluation, ...]  # all must hold, before anything else
    deny_rules: tuple[Evaluation, ...]  # each must evaluate to FALSE
    policy_allow_rules: tuple[Evaluation, ...]  # of the written policy
    authentication_requirements: tuple[Evaluation, ...]  # requirements on the sign-in of an allowed user
    has_policy: bool
    is_time_dependent: bool  # the decision may change as time goes by

    @cached_property
    def id(self) -> str:
        return self.route.id

    @cached_property
    def allow_rules(self) -> tuple[Evaluation, ...]:
        """Return the allow rules, any of which suffices."""
        return (*_compile_rules(self.route, "allow"), *self.policy_allow_rules)

    @cached_property
    def skips_anonymous_evaluation(self) -> bool:
        """Return whether access depends on the identity alone: anonymous requests are never allowed, and every user may sign in."""
        return self.client_ca is None and not self.has_policy and _ANONYMOUS_CRITERIA.isdisjoint(self.route.criteria)

    @cached_property
    def policy_checks_auth_strength(self) -> bool:
        """Return whether access rules check the method or time of sign-in, so that another sign-in may lift a denial."""
        return any(
            comparison.criterion in ("acr", "session_age") or comparison.argument in _AUTHENTICATION_CLAIMS
            for comparison in iter_comparisons(block for block in self.route.blocks if block.effect != AUTHENTICATION)
        )

    def __repr__(self) -> str:
        return f"<CompiledRoute {self.route.from_}{self.matched_prefix}>"


def compile_route(route: Route, key: str, client_ca: bytes | None = None, *, with_shadow: bool = False) -> CompiledRoute:
    """Compile a route.  `key` identifies it in problems, as in `policy[3]`.

    `client_ca` applies unless the route has its own.  Blocks in shadow mode are omitted, or enforced with `with_shadow`, and are always
    checked.  Raises ConfigError with all problems.
    """
    path, prefix, pattern, written = compile_conditions(route, key)
    policy = [(block, evaluate) for block, evaluate in written if with_shadow or block.mode == ENFORCE]
    route_ca = route.tls_downstream_client_ca
    authority = None if (pem := route_ca or client_ca) is None else ClientAuthority.from_pem(pem)
    setting = "tls_downstream_client_ca" if route_ca else "client_ca"
    has_escapes = "%" in f"{path}{prefix}"
    matches = _build_matcher(path, prefix, pattern)
    matches_interpretation = _build_interpretation_matcher(path, prefix, (pattern,)) if has_escapes else matches
    return CompiledRoute(
        route=route,
        matched_prefix=path or prefix or "",
        matches=matches,
        matches_interpretation=matches_interpretation,
        owns_interpretation=_build_interpretation_matcher(path, prefix, (pattern, _compile_decoded_pattern(route.regex)))
        if route.regex and "%" in route.regex
        else matches_interpretation,
        matches_any_path=path is None and prefix in (None, "/") and pattern is None,
        regex_has_escapes=bool(route.regex and "%" in route.regex),
        has_escapes=has_escapes,
        client_ca=authority,
        certificate_requirements=() if authority is None else (_issued_by(authority, setting),),
        deny_rules=(*_compile_rules(route, "deny"), *(evaluate for block, evaluate in policy if block.effect == "deny")),
        policy_allow_rules=tuple(evaluate for block, evaluate in policy if block.effect == "allow"),
        authentication_requirements=tuple(_compile_rules(route, AUTHENTICATION)),
        has_policy=bool(policy),
        is_time_dependent=authority is not None
        or any(comparison.criterion in TIME_DEPENDENT for comparison in iter_comparisons(_enforced_blocks(route, with_shadow))),
    )


def _compile_rules(route: Route, effect: str) -> Iterator[Evaluation]:
    """Compile the rules of route keys, which `compile_conditions` has validated."""
    return (compile_block(block) for block in route.blocks if block.is_route_key and block.effect == effect)


def _enforced_blocks(route: Route, with_shadow: bool) -> Iterator[Block]:
    return (block for block in route.blocks if with_shadow or block.mode == ENFORCE)


def _issued_by(authority: ClientAuthority, setting: str) -> Evaluation:
    is_trusted = Comparison(setting, "trusted_certificate", "", "is", False, authority.id)
    return compile_block(Block(setting, AUTHENTICATION, is_trusted, is_route_key=True))


def compile_conditions(route: Route, key: str) -> tuple[str | None, str | None, Matcher | None, list[tuple[Block, Evaluation]]]:
    """Compile the route's path, prefix, regex and policy.  Raises ConfigError if one is invalid."""
    problems: list[Problem] = []
    path = _canonical_setting(route.path, canonical_setting_path, f"{key}.path", problems)
    prefix = _canonical_setting(route.prefix, canonical_setting_prefix, f"{key}.prefix", problems)
    pattern = _compile_pattern(route.regex, f"{key}.regex", problems)
    problems.extend(_invalid_domains(route, key))
    problems.extend(invalid_user_entries(route.allowed_users, f"{key}.allowed_users"))
    policy = _compile_policy(route, key, problems)
    if route.access_requests is not None:
        problems.extend(_invalid_approvers(route.access_requests, key))
    if problems:
        raise ConfigError(problems)
    return path, prefix, pattern, policy


def _compile_policy(route: Route, key: str, problems: list[Problem]) -> list[tuple[Block, Evaluation]]:
    blocks = []
    for block in route.policy:
        try:
            blocks.append((block, compile_block(block)))
        except InvalidOperand as error:
            problems.append(Problem(f"{key}.{error.key}", str(error)))
    return blocks


def _invalid_approvers(settings: AccessRequestSettings, key: str) -> Iterator[Problem]:
    for block in approval_blocks(settings):
        try:
            compile_block(block)
        except InvalidOperand as error:
            yield Problem(f"{key}.{block.key}", str(error))


def approval_blocks(settings: AccessRequestSettings) -> Iterator[Block]:
    """Yield the rules for approvers and for break-glass access."""
    yield Block("access_requests.approvers", "allow", settings.approvers)
    if settings.break_glass is not None:
        yield Block("access_requests.break_glass.allowed", "allow", settings.break_glass.allowed)


def _canonical_setting(text: str | None, canonical: Callable[[str], str], key: str, problems: list[Problem]) -> str | None:
    if text is None:
        return None
    try:
        return canonical(text)
    except BadRequest as error:
        problems.append(Problem(key, str(error)))
        return None


def _compile_pattern(text: str | None, key: str, problems: list[Problem]) -> Matcher | None:
    if text is None:
        return None
    if not text.isascii():
        problems.append(Problem(key, "write characters beyond ASCII percent-encoded, as a canonical path holds them"))
        return None
    return _fullmatch(text)  # the configuration check has compiled it


def _compile_decoded_pattern(text: str) -> Matcher:
    """Compile a regex with escapes for decoded paths: a route that matches an escape owns the decoded path (docs/decisions/routing.md)."""
    import re2

    try:
        return _fullmatch(decoded_regex(text))
    except re2.error:
        return lambda path: False


def _fullmatch(expression: str) -> Matcher:
    """Return a matcher of bytes without groups.  It takes half the time, because RE2's Python layer computes no positions."""
    import re2  # 2 MiB, for expressions alone

    options = re2.Options()
    options.never_capture = True
    fullmatch = re2.compile(expression, options).fullmatch
    return lambda path: fullmatch(path.encode()) is not None


def _invalid_domains(route: Route, key: str) -> Iterator[Problem]:
    for index, entry in enumerate(route.allowed_domains):
        if not canonical_domain(entry):
            yield Problem(f"{key}.allowed_domains[{index}]", f"{entry!r} is not a domain such as 'example.com'")


def invalid_user_entries(entries: Iterable[str], key: str) -> Iterator[Problem]:
    for index, entry in enumerate(entries):
        try:
            parse_user_entry(entry)
        except ValueError as error:
            yield Problem(f"{key}[{index}]", str(error))


def _build_matcher(path: str | None, prefix: str | None, pattern: Matcher | None) -> Matcher:
    """Return a matcher that requires all conditions."""
    conditions: list[Matcher] = []
    if path is not None:
        conditions.append(lambda candidate: candidate == path)
    if prefix is not None and prefix != "/":
        conditions.append(lambda candidate: candidate.startswith(prefix))
    if pattern is not None:
        conditions.append(pattern)
    if not conditions:
        return lambda candidate: True
    if len(conditions) == 1:
        return conditions[0]
    return lambda candidate: all(condition(candidate) for condition in conditions)


def _build_interpretation_matcher(path: str | None, prefix: str | None, patterns: Sequence[Matcher | None]) -> Matcher:
    """Return a matcher as `_build_matcher`, for any form that each condition has in an interpretation."""
    paths, prefixes = ((None,) if text is None else configured_forms(text) for text in (path, prefix))
    matchers = [_build_matcher(*conditions) for conditions in itertools.product(paths, prefixes, patterns)]
    return lambda candidate: any(matches(candidate) for matches in matchers)


def route_name(route: Route) -> str:
    """Return the name of a route, else its address and condition."""
    where = next((f" {condition} {getattr(route, condition)}" for condition in CONDITIONS if getattr(route, condition) is not None), "")
    return route.name or f"{route.from_}{where}"


def has_allow_rule(route: Route) -> bool:
    """Return whether the route has any enforced allow rule."""
    return any(block.effect == "allow" and block.mode == ENFORCE for block in route.blocks)
