"""Rules of Authelia's `access_control` (4.x), and what they say of a request: the first that matches decides, else `default_policy`."""

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
    """Rule.  `policy` is one of POLICIES; what Authelia does not know is DENY there, too.

    `subjects` are OR-ed, what stands in each of them is AND-ed; `networks` are addresses and networks, names resolved.
    `unread` says what of it has no meaning here: it may match, and never surely.
    """

    source: ForeignKey
    policy: str
    domains: tuple[str, ...] = ()
    domain_regexes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    subjects: tuple[tuple[str, ...], ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def strictness(self) -> int:
        return POLICIES.index(self.policy)

    @property
    def takes_every_request(self) -> bool:
        return not (self.resources or self.methods or self.networks or self.subjects or self.unread)

    def takes_host(self, host: str) -> tuple[bool, bool]:
        """Whether it surely, and possibly, is about this host; `*.example.com` stands for any one label there."""
        if not self.domains and not self.domain_regexes:
            return True, True
        surely = any(_is_domain(domain, host) for domain in self.domains)
        possibly = surely or any(domain.startswith(_PLACEHOLDERS) for domain in self.domains)
        for expression in self.domain_regexes:
            found = _search(expression, host)
            surely = surely or (found is True and not host.startswith("*."))
            possibly = possibly or found is not False or host.startswith("*.")
        return surely, possibly


@dataclass(frozen=True, slots=True)
class AutheliaRequest:
    """Request and person as Authelia sees them; `username` is empty where nobody is signed in.  `path` is decoded, with its query."""

    host: str
    path: str
    method: str = "GET"
    address: str = "203.0.113.7"
    username: str = ""
    groups: frozenset[str] = frozenset()


def first_match(rules: tuple[AutheliaRule, ...], asked: AutheliaRequest) -> AutheliaRule | None:
    """Rule that decides; None for one that can't be known, because of what is not read here."""
    for rule in rules:
        surely, possibly = rule.takes_host(asked.host)
        if not possibly or not _matches(rule, asked):
            continue
        return rule if surely and not rule.unread else None
    return None


def _matches(rule: AutheliaRule, asked: AutheliaRequest) -> bool:
    if rule.resources and not any(_search(expression, asked.path) is not False for expression in rule.resources):
        return False
    if rule.methods and asked.method not in rule.methods:
        return False
    if rule.networks and not any(_is_in(asked.address, network) for network in rule.networks):
        return False
    return not rule.subjects or not asked.username or any(_is_subject(parts, asked) for parts in rule.subjects)


def _is_subject(parts: tuple[str, ...], asked: AutheliaRequest) -> bool:
    kinds = (part.partition(":") for part in parts)
    return all(asked.username == name.strip() if kind == "user" else name.strip() in asked.groups for kind, _, name in kinds)


def _is_in(address: str, network: str) -> bool:
    one, other = ipaddress.ip_address(address), ipaddress.ip_network(network, strict=False)
    return one.version == other.version and one in other


def _is_domain(domain: str, host: str) -> bool:
    return host.endswith(domain[1:]) if domain.startswith("*.") else host == domain


def _is_usable(expression: str) -> bool:
    searched = compile_re2(expression)
    return searched is not None and not searched.groupindex


def _search(expression: str, text: str) -> bool | None:
    """None where it can't be told: the expression is none, or names a person or a group."""
    searched = compile_re2(expression)
    return None if searched is None or searched.groupindex else searched.search(text) is not None


def read_rules(foreign: ForeignConfig) -> tuple[AutheliaRule, ...]:
    """Rules in their order, the default policy last."""
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
    networks, unread = _networks(_texts(raw.get("networks")), named)
    if raw.get("query"):
        unread.append("query: gate's rules don't match queries")
    subjects, unknown = _subjects(raw.get("subject"))
    expressions = [*_texts(raw.get("resources")), *_texts(raw.get("domain_regex"))]
    unknown += [
        f"{expression}: it names a user or a group, or is not a valid expression"
        for expression in expressions
        if not _is_usable(expression)
    ]
    known = {"domain", "domain_regex", "policy", "subject", "networks", "methods", "resources", "query"}
    unread += [*unknown, *(f"{key}: gate does not support it" for key in raw if key not in known)]
    return AutheliaRule(
        source,
        _policy(raw.get("policy")),
        tuple(domain.lower() for domain in _texts(raw.get("domain"))),
        tuple(_texts(raw.get("domain_regex"))),
        tuple(_texts(raw.get("resources"))),
        tuple(_texts(raw.get("methods"))),
        tuple(networks),
        subjects,
        tuple(unread),
    )


def _policy(value: Any) -> str:
    return value if value in POLICIES else DENY


def _texts(value: Any) -> list[str]:
    return [str(element) for element in value] if isinstance(value, list) else [] if value in (None, "") else [str(value)]


def _subjects(value: Any) -> tuple[tuple[tuple[str, ...], ...], list[str]]:
    alternatives = [_texts(element) for element in value] if isinstance(value, list) else [_texts(value)] if value else []
    unread = [part for parts in alternatives for part in parts if not part.startswith(("user:", "group:"))]
    if unread:  # without the others, too: whom such a rule takes is not known
        return (), [f"subject {part}: it is neither a user nor a group" for part in unread]
    return tuple(tuple(parts) for parts in alternatives if parts), []


def _named_networks(values: dict[str, Any], control: dict[str, Any]) -> dict[str, list[str]]:
    """Networks by name: `definitions.network` of newer files, `access_control.networks` of older ones."""
    definitions = values.get("definitions")
    networks = definitions.get("network") if isinstance(definitions, dict) else None
    named = {str(name): _texts(content) for name, content in networks.items()} if isinstance(networks, dict) else {}
    older = control.get("networks")
    for entry in older if isinstance(older, list) else []:
        if isinstance(entry, dict):
            named[str(entry.get("name"))] = _texts(entry.get("networks"))
    return named


def _networks(written: list[str], named: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    found, unread = list[str](), list[str]()
    for entry in _unfolded(written, named):
        try:
            found.append(str(ipaddress.ip_network(entry, strict=False)))
        except ValueError:
            unread.append(f"networks: {entry} is neither a network nor the name of one")
    return [] if unread else found, unread


def _unfolded(written: list[str], named: dict[str, list[str]]) -> Iterator[str]:
    for entry in written:
        yield from named.get(entry, [entry])
