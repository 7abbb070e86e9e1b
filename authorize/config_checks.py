"""Configuration checks that need the policy: uncompilable and unreachable routes, and failing policy tests."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from authorize.explain.simulation import SimulatedUser, simulate_identity, simulate_message, simulate_request
from authorize.policy import decision_text
from authorize.policy.compiled_route import compile_conditions, has_allow_rule
from authorize.policy.decision import Decision, Outcome, decide
from authorize.policy.mcp_message import McpMessage
from authorize.policy.paths.interpretations import is_unambiguous
from authorize.policy.policy_request import ClientCertificate, PolicyRequest
from authorize.policy.route_table import RouteTable
from authorize.policy.unreachable_routes import unreachable
from authorize.route_settings import default_ports, route_table
from authorize.user_entry_checks import (
    invalid_admin_entries,
    issuer_ambiguous_claims,
    linked_ids_in_admins,
    linked_ids_in_route,
    unmatchable_user_entries,
    unqualified_subjects,
    unusable_bearer_routes,
)
from config.loader import ConfigCheck
from config.options import Options
from config.parsing.document import parse_key_path
from config.routes.policy.policy_language import ENFORCE
from config.routes.policy.policy_tests import PolicyTest, PolicyTestMessage
from config.routes.route import Route
from config.routes.route_cache import new_routes
from config.validation import Finding
from foundation.errors import AmbiguousPath, BadRequest, ConfigError, PathTooAmbiguous

_EXPECTED = {
    Outcome.ALLOWED: "allow",
    Outcome.FORBIDDEN: "refuse",
    Outcome.CERTIFICATE: "refuse",
    Outcome.SIGN_IN: "sign-in",
    Outcome.STEP_UP: "step-up",
    Outcome.NO_ROUTE: "no-route",
}


class PerRouteCheck:
    """Check for what follows from each route alone.

    A route can't change: one in which nothing was found when this was asked last is not looked at again.
    """

    def __init__(self, check: Callable[[int, Route], Iterator[Finding]]):
        self._check = check
        self._valid: Sequence[Route] = ()

    def __call__(self, settings: Any) -> Iterator[Finding]:
        invalid = set()
        for index, route in new_routes(settings.policy, self._valid):
            for finding in self._check(index, route):
                invalid.add(index)
                yield finding
        self._valid = [route for index, route in enumerate(settings.policy) if index not in invalid]


def uncompilable_route(index: int, route: Route) -> Iterator[Finding]:
    """Report why a route cannot be compiled.  Checks of single settings do not find these errors."""
    try:
        compile_conditions(route, f"policy[{index}]")
    except ConfigError as error:
        yield from ((parse_key_path(problem.key), problem.message) for problem in error.problems)


def unreachable_routes(settings: Any) -> Iterator[Finding]:
    enforced = [index for index, route in enumerate(settings.policy) if route.mode == ENFORCE]
    for found, cover in unreachable([settings.policy[index] for index in enforced], default_ports(settings)):
        place, other = ("policy", enforced[found]), ("policy", enforced[cover])
        yield place, "can never match: {other} is before it and matches all its requests", other


def routes_with_ambiguous_path(settings: Any) -> Iterator[Finding]:
    """Report routes that reject their own path.

    Many servers serve `/a;b` as `/a`, which may belong to another route or to none (docs/decisions/routing.md).
    """
    if not any(_may_be_ambiguous(route.path or route.prefix or "/") for route in settings.policy):
        return
    try:
        table = route_table(settings)
    except ConfigError:
        return
    indexes = {id(route): index for index, route in enumerate(settings.policy)}
    for compiled in table.routes():
        route, path = compiled.route, compiled.matched_prefix
        if route.is_tcp or not path or is_unambiguous(path):
            continue
        try:
            table.match(PolicyRequest("GET", route.from_.host, _port(route, settings), path))
        except (PathTooAmbiguous, AmbiguousPath) as error:
            yield ("policy", indexes[id(route)]), f"rejects the path that it names: {error.operator_message}. Use a regex that matches both"


def _may_be_ambiguous(text: str) -> bool:
    return any(mark in text for mark in (";", "//", "%", "?", "#"))


def _port(route: Route, settings: Any) -> int | None:
    return None if route.from_.port in default_ports(settings) else route.from_.port


def routes_without_allow_rule(settings: Any) -> Iterator[Finding]:
    for index, route in enumerate(settings.policy):
        if not has_allow_rule(route):
            yield ("policy", index), "allows no user. Set allowed_users, allowed_groups, allowed_domains or allow_any_authenticated_user"


def failing_policy_tests(settings: Any) -> Iterator[Finding]:
    """Report failing policy tests.

    They run only if the configuration is valid otherwise, because another route could match if one is missing.
    """
    tests = settings.all_policy_tests if isinstance(settings, Options) else ()
    if not tests:
        return
    try:
        table = route_table(settings)
    except ConfigError:
        return
    for path, test in tests:
        if failure := _failure(test, settings, table):
            yield path, failure


def _failure(test: PolicyTest, options: Options, table: RouteTable) -> str:
    """Return why a policy test fails, "" if it passes."""
    name = f" ({test.name})" if test.name else ""
    try:
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in test.headers.items()]
        request = simulate_request(
            test.url, test.method, default_ports(options), headers, source_ip=test.source_ip or "", mcp=_message(test.mcp)
        )
        user = SimulatedUser(test.user, test.groups, test.claims, None, test.granted, test.granted_tools, test.client or "", test.scopes)
        identity = simulate_identity(user, options)
    except ValueError as error:
        return f"fails{name}: {error}"
    try:
        decision = decide(_with_certificate(request, test, table), identity, table, time.time())
    except BadRequest as error:
        return (
            ""
            if test.expect == "refuse" and test.route is None
            else f"fails{name}: expected {test.expect}, got refuse: {error.operator_message}"
        )
    index = _index(decision, options)
    if _EXPECTED[decision.outcome] != test.expect:
        return f"fails{name}: expected {test.expect}, got {_EXPECTED[decision.outcome]}{_route_suffix(index, options)}: {_trace(decision)}"
    if test.route is not None and test.route not in (index, decision.compiled_route.route.name if decision.compiled_route else None):
        return f"fails{name}: expected route {test.route}, got{_route_suffix(index, options).removeprefix(' by')}"
    return ""


def _message(settings: PolicyTestMessage | None) -> McpMessage | None:
    values = () if settings is None else (settings.method, settings.tool, settings.prompt, settings.resource)
    return simulate_message(*(value or "" for value in values))


def _with_certificate(request: PolicyRequest, test: PolicyTest, table: RouteTable) -> PolicyRequest:
    """Attach the test's certificate, if the matched route requires one."""
    certificate, route = test.client_certificate, table.match(request)
    if certificate is None or route is None or route.client_ca is None:
        return request
    errors = {route.client_ca.id: "" if certificate.is_trusted else "is not issued by the route's CA"}
    return replace(request, client_certificate=ClientCertificate(certificate.fingerprint, certificate.spki, "", verification_errors=errors))


def _index(decision: Decision, options: Options) -> int | None:
    if decision.compiled_route is None:
        return None
    return next(index for index, route in enumerate(options.policy) if route is decision.compiled_route.route)


def _route_suffix(index: int | None, options: Options) -> str:
    if index is None:
        return ""
    name = options.policy[index].name
    return f" by policy[{index}]" + (f" ({name})" if name else "")


def _trace(decision: Decision) -> str:
    if not decision.trace:
        return decision_text.user_message(decision).rstrip(".")
    return "; ".join(f"{row['rule']}: {row['reason']}" for row in decision_text.trace_rows(decision))


CONFIG_CHECKS = (
    ConfigCheck("unusable-route", PerRouteCheck(uncompilable_route)),
    ConfigCheck("invalid-configuration", invalid_admin_entries),
    ConfigCheck("invalid-configuration", unqualified_subjects),
    ConfigCheck("invalid-configuration", PerRouteCheck(linked_ids_in_route)),
    ConfigCheck("invalid-configuration", linked_ids_in_admins),
    ConfigCheck("policy-test", failing_policy_tests),
    ConfigCheck("unreachable-route", unreachable_routes, warns=True),
    ConfigCheck("unreachable-route", routes_without_allow_rule, warns=True),
    ConfigCheck("unreachable-route", routes_with_ambiguous_path, warns=True),
    ConfigCheck("doubtful-name", unmatchable_user_entries, warns=True),
    ConfigCheck("doubtful-name", unusable_bearer_routes, warns=True),
    ConfigCheck("doubtful-name", issuer_ambiguous_claims, warns=True),
)
