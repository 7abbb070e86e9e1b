"""Rules of Authelia's `access_control` (4.x), and their evaluation: the first match applies, else `default_policy`."""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from config.importing.conversion import ForeignKey
from config.importing.foreign_file import ForeignConfig
from config.importing.foreign_values import compile_re2

BYPASS, ONE_FACTOR, TWO_FACTOR, DENY = POLICIES = ("bypass", "one_factor", "two_factor", "deny")
_PLACEHOLDERS = ("{user}", "{group}")


@dataclass(frozen=True, slots=True)
class AutheliaRule:
    """A rule. `policy` is one of POLICIES; unknown policies are DENY, as in Authelia.

    `subjects` are combined with OR, the parts of each with AND. `networks` have names resolved. A rule with `unsupported` parts may match,
    but never for certain.
    """

    source: ForeignKey
    policy: str
    domains: tuple[str, ...] = ()
    domain_regexes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    subjects: tuple[tuple[str, ...], ...] = ()
    unsupported: tuple[str, ...] = ()

    @property
    def strictness(self) -> int:
        return POLICIES.index(self.policy)

    @property
    def matches_all(self) -> bool:
        return not (self.resources or self.methods or self.networks or self.subjects or self.unsupported)

    def matches_host(self, host: str) -> tuple[bool, bool]:
        """Return whether the rule matches this host for certain, and whether it may match. `*.example.com` as host means any label."""
        if not self.domains and not self.domain_regexes:
            return True, True
        certain = any(_is_domain(domain, host) for domain in self.domains)
        possible = certain or any(domain.startswith(_PLACEHOLDERS) for domain in self.domains)
        for expression in self.domain_regexes:
            found = _search(expression, host)
            certain = certain or (found is True and not host.startswith("*."))
            possible = possible or found is not False or host.startswith("*.")
        return certain, possible


@dataclass(frozen=True, slots=True)
class AutheliaRequest:
    """Request as Authelia evaluates it. `username` is empty for anonymous users; `path` is decoded and includes the query."""

    host: str
    path: str
    method: str = "GET"
    address: str = "203.0.113.7"
    username: str = ""
    groups: frozenset[str] = frozenset()


def first_match(rules: tuple[AutheliaRule, ...], request: AutheliaRequest) -> AutheliaRule | None:
    """Return the rule that applies; None if that is uncertain because of unsupported parts."""
    for rule in rules:
        certain, possible = rule.matches_host(request.host)
        if not possible or not _matches(rule, request):
            continue
        return rule if certain and not rule.unsupported else None
    return None


def _matches(rule: AutheliaRule, request: AutheliaRequest) -> bool:
    if rule.resources and not any(_search(expression, request.path) is not False for expression in rule.resources):
        return False
    if rule.methods and request.method not in rule.methods:
        return False
    if rule.networks and not any(_is_in(request.address, network) for network in rule.networks):
        return False
    return not rule.subjects or not request.username or any(_is_subject(parts, request) for parts in rule.subjects)


def _is_subject(parts: tuple[str, ...], request: AutheliaRequest) -> bool:
    kinds = (part.partition(":") for part in parts)
    return all(request.username == name.strip() if kind == "user" else name.strip() in request.groups for kind, _, name in kinds)


def _is_in(address: str, network: str) -> bool:
    one, other = ipaddress.ip_address(address), ipaddress.ip_network(network, strict=False)
    return one.version == other.version and one in other


def _is_domain(domain: str, host: str) -> bool:
    return host.endswith(domain[1:]) if domain.startswith("*.") else host == domain


def _is_usable(expression: str) -> bool:
    searched = compile_re2(expression)
    return searched is not None and not searched.groupindex


def _search(expression: str, text: str) -> bool | None:
    """Return whether the expression matches; None if it is invalid, or has named groups, which Authelia compares with a user or a group."""
    searched = compile_re2(expression)
    return None if searched is None or searched.groupindex else searched.search(text) is not None


def read_rules(foreign: ForeignConfig) -> tuple[AutheliaRule, ...]:
    """Return the rules in order, the default policy last."""
    control = foreign.values.get("access_control")
    control = control if isinstance(control, dict) else {}
    written = control.get("rules")
    networks = _named_networks(foreign.values, control)
    rules = [
        _rule(raw if isinstance(raw, dict) else {}, foreign.source("access_control", "rules", index), networks)
        for index, raw in enumerate(written if isinstance(written, list) else [])
    ]
    source = foreign.source("access_control", "default_policy")
    return (*rules, AutheliaRule(source, _policy(control.get("default_policy", DENY))))


def _rule(raw: dict[str, Any], source: ForeignKey, named: dict[str, list[str]]) -> AutheliaRule:
    networks, unsupported = _networks(_texts(raw.get("networks")), named)
    if raw.get("query"):
        unsupported.append("query: gate's rules don't match queries")
    subjects, unknown = _subjects(raw.get("subject"))
    expressions = [*_texts(raw.get("resources")), *_texts(raw.get("domain_regex"))]
    unknown += [
        f"{expression}: it names a user or a group, or is not a valid expression"
        for expression in expressions
        if not _is_usable(expression)
    ]
    known = {"domain", "domain_regex", "policy", "subject", "networks", "methods", "resources", "query"}
    unsupported += [*unknown, *(f"{key}: gate does not support it" for key in raw if key not in known)]
    return AutheliaRule(
        source,
        _policy(raw.get("policy")),
        tuple(domain.lower() for domain in _texts(raw.get("domain"))),
        tuple(_texts(raw.get("domain_regex"))),
        tuple(_texts(raw.get("resources"))),
        tuple(_texts(raw.get("methods"))),
        tuple(networks),
        subjects,
        tuple(unsupported),
    )


def _policy(value: Any) -> str:
    return value if value in POLICIES else DENY


def _texts(value: Any) -> list[str]:
    return [str(element) for element in value] if isinstance(value, list) else [] if value in (None, "") else [str(value)]


def _subjects(value: Any) -> tuple[tuple[tuple[str, ...], ...], list[str]]:
    alternatives = [_texts(element) for element in value] if isinstance(value, list) else [_texts(value)] if value else []
    unsupported = [part for parts in alternatives for part in parts if not part.startswith(("user:", "group:"))]
    if unsupported:  # no subject at all, because the users of such a rule are unknown
        return (), [f"subject {part}: it is neither a user nor a group" for part in unsupported]
    return tuple(tuple(parts) for parts in alternatives if parts), []


def _named_networks(values: dict[str, Any], control: dict[str, Any]) -> dict[str, list[str]]:
    """Return the networks by name: `definitions.network` of newer files, `access_control.networks` of older ones."""
    definitions = values.get("definitions")
    networks = definitions.get("network") if isinstance(definitions, dict) else None
    named = {str(name): _texts(content) for name, content in networks.items()} if isinstance(networks, dict) else {}
    older = control.get("networks")
    for entry in older if isinstance(older, list) else []:
        if isinstance(entry, dict):
            named[str(entry.get("name"))] = _texts(entry.get("networks"))
    return named


def _networks(written: list[str], named: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    found, unsupported = list[str](), list[str]()
    for entry in _unfolded(written, named):
        try:
            found.append(str(ipaddress.ip_network(entry, strict=False)))
        except ValueError:
            unsupported.append(f"networks: {entry} is neither a network nor the name of one")
    return [] if unsupported else found, unsupported


def _unfolded(written: list[str], named: dict[str, list[str]]) -> Iterator[str]:
    for entry in written:
        yield from named.get(entry, [entry])
