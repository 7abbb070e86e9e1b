"""Importer for Authelia 4.x: a route for each host in its rules, with a `policy` that is equivalent to the first matching rule.

Authelia has no upstreams: the operator sets `to`, or keeps a front proxy with forward auth. Authelia remains the identity provider.
"""

from collections.abc import Callable
from typing import Any

from config.importing.authelia.authelia_rules import BYPASS, DENY, TWO_FACTOR, AutheliaRule, read_rules
from config.importing.authelia.generated_tests import generate_tests
from config.importing.conversion import Conversion, ConvertedSection
from config.importing.foreign_file import AUTHELIA, ForeignConfig
from config.importing.foreign_values import split_url
from config.importing.path_bounds import approximate_path
from config.importing.policy_expressions import Expression, combine_and, combine_nor, combine_or
from config.importing.preamble import NO_UPSTREAM, SIGNED_IN, grant_access, write_preamble

SECOND_FACTOR: Expression = {"claim/amr": "mfa"}
# Users and their authentication remain in Authelia.
_PROVIDER_SIDE = "not converted: Authelia remains your identity provider, which gate uses through OpenID Connect"
_REASONS = {
    "session": "gate has its own sessions: cookie_expire, databroker_storage_type",
    "server": "the setting address replaces it",
    "log": "use log_level if it differs from info",
    "telemetry": "use metrics_address for gate's own metrics",
    "theme": "gate's pages follow the browser's preference",
    "definitions": "networks are written out in each rule that names them",
}


def convert(foreign: ForeignConfig, new_secret: Callable[[], bytes]) -> Conversion:
    """Convert the configuration. `new_secret` returns 32 random bytes."""
    converted = Conversion(AUTHELIA)
    rules = read_rules(foreign)
    _convert_top_level(converted.top, foreign, new_secret)
    _add_shared_notes(converted.top, rules)
    for host in _hosts(rules):
        converted.routes.append(_route(host, rules))
        converted.tests += generate_tests(host, rules)
    if not converted.routes:
        converted.top.mark_lost(
            foreign.source("access_control"), "no rule names a host, and gate needs a route for each host. Add the routes"
        )
    return converted


def _convert_top_level(top: ConvertedSection, foreign: ForeignConfig, new_secret: Callable[[], bytes]) -> None:
    domain, portal = _cookie(foreign.values)
    about_client = "a client of authorization_policy two_factor where a rule asks for two factors"
    write_preamble(top, domain, portal, "Authelia as OpenID Connect provider (identity_providers.oidc)", about_client, new_secret)
    for key in foreign.values:
        if key != "access_control":
            top.mark_lost(foreign.source(key), _REASONS.get(key, _PROVIDER_SIDE))


def _cookie(values: dict[str, Any]) -> tuple[str, str]:
    """Return the domain of sessions and the URL of the portal."""
    session = values.get("session")
    cookies = session.get("cookies") if isinstance(session, dict) else None
    first = cookies[0] if isinstance(cookies, list) and cookies and isinstance(cookies[0], dict) else session
    first = first if isinstance(first, dict) else {}
    domain = str(first.get("domain") or "example.com").lower()
    portal = str(first.get("authelia_url") or f"https://auth.{domain}")
    parts = split_url(portal)
    return domain, portal if parts.scheme == "https" and parts.hostname else f"https://auth.{domain}"


def _add_shared_notes(top: ConvertedSection, rules: tuple[AutheliaRule, ...]) -> None:
    top.note(
        "NEW",
        f"Authelia has no upstreams: replace {NO_UPSTREAM} in each `to` with yours. With forward auth none is needed",
    )
    top.note("NEW", "Remote-User, -Email and -Groups became X-Gate-Jwt-Assertion, which is signed (pass_identity_headers)")
    if any(part.startswith("user:") for rule in rules for parts in rule.subjects for part in parts):
        top.note(
            "CHECK",
            "user:NAME became the claim preferred_username. At another provider than Authelia, check that users can't choose its value",
        )
    if any(rule.policy == TWO_FACTOR for rule in rules):
        top.note(
            "CHECK",
            "two_factor became the claim amr with mfa (RFC 8176): users who signed in with "
            "one factor are denied, without step-up authentication",
        )
    if any(rule.networks for rule in rules):
        top.note("CHECK", "networks match the client address. List the proxies in front of gate in trusted_proxies")


def _hosts(rules: tuple[AutheliaRule, ...]) -> list[str]:
    """Return the hosts of the rules, wildcards last, because the first matching route applies."""
    named = dict.fromkeys(domain for rule in rules for domain in rule.domains if not domain.startswith(("{user}", "{group}")))
    return sorted(named, key=lambda domain: (domain.startswith("*."), -domain.count(".") if domain.startswith("*.") else 0))


def _route(host: str, rules: tuple[AutheliaRule, ...]) -> ConvertedSection:
    route = ConvertedSection()
    about = [rule for rule in rules if rule.matches_host(host)[1]]
    first = next((rule for rule in about if host in rule.domains), about[0])
    route.set(first.source, "from", f"https://{host}")
    if host.startswith("*."):
        route.note("CHECK", f"{host} matches one label only: hosts with more labels have no route and get 404")
    route.set(None, "to", NO_UPSTREAM)
    route.set(None, "allow_websockets", True)
    route.set(None, "pass_identity_headers", True)
    grants = [_rule_expression(route, host, index, about) for index in range(len(about))]
    grant_access(route, combine_or(grants))
    return route


def _rule_expression(route: ConvertedSection, host: str, index: int, rules: list[AutheliaRule]) -> Expression:
    """Return the expression for users that this rule allows.

    The rule must match for certain, no stricter rule before it may match, and the users must meet its policy.
    """
    rule = rules[index]
    _note_differences(route, host, rule)
    if rule.policy == DENY or any(earlier.matches_all and earlier.matches_host(host)[0] for earlier in rules[:index]):
        return False
    stricter = [earlier for earlier in rules[:index] if earlier.strictness > rule.strictness]
    signed_in = rule.policy != BYPASS and not rule.subjects
    return combine_and(
        [
            _match_expression(host, rule, lower=True),
            SIGNED_IN if signed_in else True,
            SECOND_FACTOR if rule.policy == TWO_FACTOR else True,
            combine_nor([_match_expression(host, earlier, lower=False) for earlier in stricter]),
        ]
    )


def _match_expression(host: str, rule: AutheliaRule, *, lower: bool) -> Expression:
    is_here = rule.matches_host(host)[0 if lower else 1]
    if not is_here or (lower and rule.unsupported):
        return False
    bounds = [approximate_path(expression, includes_query=True) for expression in rule.resources]
    paths = combine_or([bound.lower if lower else bound.upper for bound in bounds]) if bounds else True
    methods: Expression = {"http_method": {"in": list(rule.methods)}} if rule.methods else True
    networks: Expression = {"source_ip": {"in": list(rule.networks)}} if rule.networks else True
    subjects = combine_or([combine_and(map(_subject_expression, parts)) for parts in rule.subjects]) if rule.subjects else True
    return combine_and([paths, methods, networks, subjects])


def _subject_expression(subject: str) -> Expression:
    kind, _, name = subject.partition(":")
    return {"claim/preferred_username": name.strip()} if kind == "user" else {"groups": name.strip()}


def _note_differences(route: ConvertedSection, host: str, rule: AutheliaRule) -> None:
    """Note the parts of the rule that could not be converted exactly."""
    for text in rule.unsupported:
        route.mark_lost(rule.source, f"{text}; the rule allows nothing, and requests that it may deny stay denied")
    lower, _ = rule.matches_host(host)
    if not lower:
        route.note("CHECK", f"{rule.source}: whether it applies to {host} depends on the user or on the host name. It allows nothing")
    for expression in rule.resources:
        if not approximate_path(expression, includes_query=True).is_exact:
            differences = "gate's rules match the path without its query. Requests that may have matched otherwise stay denied"
            route.note("CHECK", f"{rule.source}: {expression}: {differences}")
