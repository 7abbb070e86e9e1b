"""Compiled route: a route of the configuration, made ready to match a path and to let a caller in."""

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import re2

from authorize.policy import criteria
from authorize.policy.criterion import Criterion, Evaluation
from authorize.policy.language.access_criteria import given_access
from authorize.policy.language.expressions import CompiledBlock, UnusableOperand, compile_block, single
from authorize.policy.paths.canonical import canonical_setting_path, canonical_setting_prefix
from authorize.policy.paths.readings import expression_form, setting_forms
from authorize.policy.reasons import Reason
from authorize.policy.step_up import policy_judges_strength, strengths_of
from authorize.policy.user_entry import user_entry
from config.routes.access_requests import AccessRequestKeys
from config.routes.policy.language import ENFORCE, Block
from config.routes.route import Route
from foundation.email_address import canonical_domain
from foundation.errors import BadRequest, ConfigError, Problem

Matcher = Callable[[str], bool]

_WITHOUT_GROUPS = re2.Options()
_WITHOUT_GROUPS.never_capture = True

CONDITIONS = ("path", "prefix", "regex")


@dataclass(frozen=True, slots=True)
class ClientAuthority:
    """Authorities that a route trusts to issue client certificates; `id` is the SHA-256 of their PEM."""

    id: str
    pem: bytes

    @classmethod
    def of(cls, pem: bytes) -> "ClientAuthority":
        return cls(hashlib.sha256(pem).hexdigest(), pem)


@dataclass(frozen=True, slots=True, eq=False)
class CompiledRoute:
    """Route made ready.  `matched_prefix` is the canonical `path` or `prefix` that `prefix_rewrite` replaces, "" where it has neither.

    What has no place among the arguments is made for the first request that asks, and then kept: of ten thousand routes most are never
    asked.
    """

    route: Route
    matched_prefix: str
    matches: Matcher  # the canonical path
    resembles: Matcher  # one of its readings
    owns: Matcher  # one of its readings, where the path itself is this route's
    takes_all: bool  # it has no condition on the path
    names_percent: bool  # its `regex` speaks of escapes, or of the percent sign
    has_escapes: bool  # its `path` or `prefix` can be spelled differently
    client_ca: ClientAuthority | None  # who must have issued the client's certificate
    requirements: tuple[Criterion, ...]  # all must hold, before anything else
    denials: tuple[CompiledBlock, ...]  # none may hold, and each must be known not to
    allows: tuple[CompiledBlock, ...]
    strengths: tuple[Criterion, ...]  # what the sign-in of whoever may enter must be like
    policy_judges_strength: bool
    has_policy: bool
    is_timed: bool  # the decision may change as time goes by
    id: str = field(init=False)
    grants: tuple[Evaluation, ...] = field(init=False)  # any one suffices
    is_for_people: bool = field(init=False)  # only who is asking decides: nobody is let in unasked, and everybody may sign in

    def __getattr__(self, name: str) -> Any:
        if name == "id":
            made: Any = self.route.id
        elif name == "grants":
            made = (*map(single, grants_of(self.route)), *(block.evaluate for block in self.allows))
        elif name == "is_for_people":
            is_free = self.client_ca is None and not self.has_policy
            made = is_free and all(criterion.look.nobody is not None for criterion in grants_of(self.route))
        else:
            raise AttributeError(name)
        object.__setattr__(self, name, made)
        return made

    def __repr__(self) -> str:
        return f"<CompiledRoute {self.route.from_}{self.matched_prefix}>"


def compile_route(route: Route, key: str, client_ca: bytes | None = None, *, with_shadow: bool = False) -> CompiledRoute:
    """Route made ready; `key` names it in problems (`policy[3]`); ConfigError with each of them.

    `client_ca` is that of all routes; the route's own takes its place.  Blocks in shadow are left out, or `with_shadow` taken for
    enforced; either way their problems are found.
    """
    path, prefix, pattern, written = usable_conditions(route, key)
    blocks = [block for block in written if with_shadow or block.mode == ENFORCE]
    own_ca = route.tls_downstream_client_ca
    authority = None if (pem := own_ca or client_ca) is None else ClientAuthority.of(pem)
    setting = "tls_downstream_client_ca" if own_ca else "client_ca"
    has_escapes = "%" in f"{path}{prefix}"
    matches = _matcher(path, prefix, pattern)
    resembles = _reading_matcher(path, prefix, (pattern,)) if has_escapes else matches
    return CompiledRoute(
        route=route,
        matched_prefix=path or prefix or "",
        matches=matches,
        resembles=resembles,
        owns=_reading_matcher(path, prefix, (pattern, _decoded_pattern(route.regex))) if route.regex and "%" in route.regex else resembles,
        takes_all=path is None and prefix in (None, "/") and pattern is None,
        names_percent=bool(route.regex and "%" in route.regex),
        has_escapes=has_escapes,
        client_ca=authority,
        requirements=() if authority is None else (criteria.certificate(authority.id, setting),),
        denials=(*_other_providers(route), *(block for block in blocks if block.effect == "deny")),
        allows=tuple(block for block in blocks if block.effect == "allow"),
        strengths=tuple(strengths_of(route)),
        policy_judges_strength=policy_judges_strength(route),
        has_policy=bool(blocks),
        is_timed=authority is not None or route.max_age is not None or route.sees_access or any(block.is_timed for block in blocks),
    )


def usable_conditions(route: Route, key: str) -> tuple[str | None, str | None, Matcher | None, list[CompiledBlock]]:
    """The route's path, prefix, pattern and policy, ready to be compared; ConfigError where it can't be used."""
    problems: list[Problem] = []
    path = _setting(route.path, canonical_setting_path, f"{key}.path", problems)
    prefix = _setting(route.prefix, canonical_setting_prefix, f"{key}.prefix", problems)
    pattern = _pattern(route.regex, f"{key}.regex", problems)
    problems.extend(_unusable_domains(route, key))
    problems.extend(unusable_users(route.allowed_users, f"{key}.allowed_users"))
    blocks = _blocks(route, key, problems)
    if route.access_requests is not None:
        problems.extend(_unusable_approvers(route.access_requests, key))
    if problems:
        raise ConfigError(problems)
    return path, prefix, pattern, blocks


def _other_providers(route: Route) -> Iterator[CompiledBlock]:
    if route.identity_providers:
        key = "identity_providers"
        criterion = criteria.signed_in_elsewhere(route.identity_providers, key)
        yield CompiledBlock(key, "deny", ENFORCE, single(criterion), is_timed=False)


def _blocks(route: Route, key: str, problems: list[Problem]) -> list[CompiledBlock]:
    blocks = []
    for block in route.policy:
        try:
            blocks.append(compile_block(block))
        except UnusableOperand as error:
            problems.append(Problem(f"{key}.{error.key}", str(error)))
    return blocks


def _unusable_approvers(asking: AccessRequestKeys, key: str) -> Iterator[Problem]:
    for block in people_blocks(asking):
        try:
            compile_block(block)
        except UnusableOperand as error:
            yield Problem(f"{key}.{block.key}", str(error))


def people_blocks(asking: AccessRequestKeys) -> Iterator[Block]:
    """Who approves, and who breaks the glass."""
    yield Block("access_requests.approvers", "allow", asking.approvers)
    if asking.break_glass is not None:
        yield Block("access_requests.break_glass.allowed", "allow", asking.break_glass.allowed)


def _setting(text: str | None, canonical: Callable[[str], str], key: str, problems: list[Problem]) -> str | None:
    if text is None:
        return None
    try:
        return canonical(text)
    except BadRequest as error:
        problems.append(Problem(key, str(error)))
        return None


def _pattern(text: str | None, key: str, problems: list[Problem]) -> Matcher | None:
    if text is None:
        return None
    if not text.isascii():
        problems.append(Problem(key, "write characters beyond ASCII percent-encoded, as a canonical path holds them"))
        return None
    return _fullmatch(text)  # that it compiles was checked with the configuration


def _decoded_pattern(text: str) -> Matcher:
    """Of a regex that names escapes: a route that was found by them owns what they stand for (docs/decisions/paths.md)."""
    try:
        return _fullmatch(expression_form(text))
    except re2.error:
        return lambda path: False


def _fullmatch(expression: str) -> Matcher:
    """Of bytes and without groups: half the time, as RE2's Python side has no places in a text to work out."""
    fullmatch = re2.compile(expression, _WITHOUT_GROUPS).fullmatch
    return lambda path: fullmatch(path.encode()) is not None


def _unusable_domains(route: Route, key: str) -> Iterator[Problem]:
    for index, entry in enumerate(route.allowed_domains):
        if not canonical_domain(entry):
            yield Problem(f"{key}.allowed_domains[{index}]", f"{entry!r} is not a domain such as 'example.com'")


def unusable_users(entries: Iterable[str], key: str) -> Iterator[Problem]:
    for index, entry in enumerate(entries):
        try:
            user_entry(entry)
        except ValueError as error:
            yield Problem(f"{key}[{index}]", str(error))


def _matcher(path: str | None, prefix: str | None, pattern: Matcher | None) -> Matcher:
    """All of the conditions that are given must hold."""
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


def _reading_matcher(path: str | None, prefix: str | None, patterns: Sequence[Matcher | None]) -> Matcher:
    """As `_matcher`, for any of the forms that each condition has in a reading."""
    paths, prefixes = ((None,) if text is None else setting_forms(text) for text in (path, prefix))
    matchers = [_matcher(*conditions) for conditions in itertools.product(paths, prefixes, patterns)]
    return lambda candidate: any(matches(candidate) for matches in matchers)


def name_of(route: Route) -> str:
    """Name as people know the route: its own, else where it lies."""
    where = next((f" {condition} {getattr(route, condition)}" for condition in CONDITIONS if getattr(route, condition) is not None), "")
    return route.name or f"{route.from_}{where}"


def lets_somebody_in(route: Route) -> bool:
    """Whether it has any grant at all."""
    return bool(
        route.allow_any_authenticated_user
        or route.allowed_users
        or route.allowed_groups
        or route.allowed_domains
        or route.allowed_idp_claims
        or route.allow_public_unauthenticated_access
        or route.redirect is not None
        or route.cors_allow_preflight
        or route.access_requests is not None
        or any(block.effect == "allow" and block.mode == ENFORCE for block in route.policy)
    )


def grants_of(route: Route) -> Iterator[Criterion]:
    """Grants: those that need no sign-in come first, then from the cheapest to the dearest."""
    if route.allow_public_unauthenticated_access:
        yield criteria.always("allow_public_unauthenticated_access", Reason.PUBLIC)
    if route.redirect is not None:
        yield criteria.always("redirect", Reason.REDIRECT)
    if route.cors_allow_preflight:
        yield criteria.preflight()
    if route.allow_any_authenticated_user:
        yield criteria.any_user()
    if route.allowed_users:
        yield criteria.users(route.allowed_users)
    if route.allowed_groups:
        yield criteria.groups(route.allowed_groups)
    if route.allowed_domains:
        yield criteria.domains(route.allowed_domains)
    if route.allowed_idp_claims:
        yield criteria.claims(route.allowed_idp_claims)
    if route.access_requests is not None:
        yield given_access("access_requests")
