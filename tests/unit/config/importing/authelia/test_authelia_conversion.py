"""Authelia's access_control: the conversion never allows more than the original."""

import ipaddress
import os
import posixpath
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
import yaml

from authorize.policy.decision import decide
from authorize.policy.route_table import RouteTable
from config.importing.authelia.authelia_conversion import convert
from config.importing.conversion import Conversion
from config.importing.foreign_file import AUTHELIA, ForeignConfig, read
from config.importing.yaml_output import render_yaml
from config.parsing.document import Document
from config.routes.route import Route
from foundation.errors import BadRequest
from tests.unit.authorize.builders import HTTPS, NOW, request, user

FILES = int(os.environ.get("GATE_POLICY_CASES", "2000")) // 5
HOSTS = ("app.example.com", "wiki.example.com", "a.dev.example.com", "other.test")
DOMAINS = (*HOSTS[:3], "*.example.com", "*.dev.example.com", "{user}.example.com", "APP.example.com")
RESOURCES = (
    "^/api([/?].*)?$",
    "^/api/",
    "^/api$",
    "^/admin.*$",
    "^/(a|b)/",
    "^/a(/.*)?$",
    ".*",
    "admin",
    r"\.css$",
    "^/[^/]+/x",
    "^/x y",
    "^/a/?$",
    "^/users/(?P<User>\\w+)",
    "(?i)^/API",
    "^/a|^/b",
    "^/[a-z]+/admin$",
    "^/[+-z]",
    r"^/x\.y$",
    "secret",
    "^/.*/public",
    "^/api.+",
    "^/$",
    r"^/a(\?.*)?$",
)
PATHS = (
    "/",
    "/api",
    "/api/",
    "/api/x",
    "/apix",
    "/admin",
    "/admin/x",
    "/a",
    "/a/",
    "/a/x",
    "/b/x",
    "/x.css",
    "/q/x",
    "/x%20y",
    "/x%20y/z",
    "/users/ann",
    "/%61pi",
    "/api%2Fx",
    "/x/../admin",
    "//admin",
    "/q//x",
    "/q/admin",
    "/x.y",
    "/API/x",
    "/a%3Fsecret",
    "/q/public",
    "/%E2%84%AA",
    "/q/z/public",
    "/;/admin",
)
QUERIES = ("", "", "", "?", "?secret", "?x=/admin", "?a.css")
NETWORKS = ("10.0.0.0/8", "192.0.2.7", "inside", "nowhere", "fd00::/8")
INSIDE = {"inside": ["10.1.0.0/16", "192.0.2.0/24"]}
ADDRESSES = ("10.1.2.3", "192.0.2.7", "203.0.113.9", "fd00::1")
SUBJECTS = ("user:ann", "user:bob", "group:dev", "group:admins", "oauth2:client:x")
POLICIES = ("bypass", "one_factor", "two_factor", "deny", "nonsense")


def foreign(control: dict[str, Any], **top: Any) -> ForeignConfig:
    values = {"access_control": control, **top}
    return ForeignConfig(AUTHELIA, values, Document(values), Path())


def table_of(converted: Conversion) -> RouteTable:
    written = [{entry.key: entry.value for entry in route.entries if entry.key} for route in converted.routes]
    return RouteTable.build([Route.model_validate(route) for route in written], HTTPS, client_ca=None)


class Authelia:
    """A second reading of Authelia's documentation and code (internal/authorization, utils.URLPathFullClean)."""

    def __init__(self, control: dict[str, Any]):
        self.control = control

    def allows(self, host: str, target: str, method: str, address: str, name: str, groups: list[str], factors: int) -> bool:
        raw_path, _, query = target.partition("?")
        path = unquote_to_bytes(raw_path).decode("utf-8", "surrogateescape")
        slash = "/" if len(path) > 1 and path.endswith("/") else ""
        cleaned = "/" + posixpath.normpath(path).lstrip("/")
        path_and_query = (cleaned if cleaned == "/" else cleaned + slash) + (f"?{query}" if query else "")
        policy = next(
            (rule["policy"] for rule in self.control["rules"] if self.matches(rule, host, path_and_query, method, address, name, groups)),
            self.control.get("default_policy", "deny"),
        )
        return {"bypass": True, "one_factor": factors >= 1, "two_factor": factors == 2}.get(policy, False)

    def matches(self, rule: dict[str, Any], host: str, target: str, method: str, address: str, name: str, groups: list[str]) -> bool:
        return (
            any(self.is_domain(domain.lower(), host, name, groups) for domain in rule["domain"])
            and self.any_or_none(rule, "resources", lambda text: self.searched(text, target, name))
            and self.any_or_none(rule, "methods", lambda text: text == method)
            and self.any_or_none(rule, "networks", lambda text: self.is_in(text, address))
            and (not name or self.any_or_none(rule, "subject", lambda parts: all(self.matches_user(part, name, groups) for part in parts)))
            and ("query" not in rule or "secret" in target)
        )

    @staticmethod
    def any_or_none(rule: dict[str, Any], key: str, holds: Any) -> bool:
        return not rule.get(key) or any(map(holds, rule[key]))

    @staticmethod
    def is_domain(domain: str, host: str, name: str, groups: list[str]) -> bool:
        if domain.startswith("*."):
            return host.endswith(domain[1:])
        if domain.startswith("{user}"):
            return host == name + domain[6:] if name else host.endswith(domain[6:])
        return host == domain

    @staticmethod
    def searched(expression: str, target: str, name: str) -> bool:
        found = re.search(expression, target)
        return found is not None and (not name or "User" not in found.groupdict() or found["User"].lower() == name)

    @staticmethod
    def is_in(network: str, address: str) -> bool:
        return any(
            ipaddress.ip_address(address) in ipaddress.ip_network(each) for each in INSIDE.get(network, [network]) if each != "nowhere"
        )

    @staticmethod
    def matches_user(subject: str, name: str, groups: list[str]) -> bool:
        kind, _, what = subject.partition(":")
        return what == name if kind == "user" else what in groups if kind == "group" else False


def some_control(chance: random.Random) -> dict[str, Any]:
    def some(values: tuple[Any, ...], limit: int) -> list[Any]:
        return chance.sample(values, chance.randint(1, limit))

    def rule() -> dict[str, Any]:
        written: dict[str, Any] = {"domain": some(DOMAINS, 2), "policy": chance.choice(POLICIES)}
        if chance.random() < 0.5:
            written["resources"] = some(RESOURCES, 3)
        if chance.random() < 0.2:
            written["methods"] = some(("GET", "POST", "OPTIONS"), 2)
        if chance.random() < 0.2:
            written["networks"] = some(NETWORKS, 2)
        if chance.random() < 0.4 and written["policy"] != "bypass":
            written["subject"] = [some(SUBJECTS, 2) for _ in range(chance.randint(1, 2))]
        if chance.random() < 0.05:
            written["query"] = [[{"operator": "present", "key": "secret"}]]
        return written

    return {"default_policy": chance.choice(POLICIES[:4]), "rules": [rule() for _ in range(chance.randint(1, 6))]}


def test_gate_never_allows_more_than_authelia() -> None:
    chance, counts, mismatches = random.Random(11), Counter[str](), []
    for _ in range(FILES):
        control = some_control(chance)
        table, authelia = table_of(convert(foreign(control, definitions={"network": INSIDE}), lambda: b"n" * 32)), Authelia(control)
        for _ in range(15):
            host, target, method = (
                chance.choice(HOSTS),
                chance.choice(PATHS) + chance.choice(QUERIES),
                chance.choice(("GET", "POST", "OPTIONS")),
            )
            address, factors = chance.choice(ADDRESSES), chance.choice((0, 1, 2))
            name, groups = (
                (chance.choice(("ann", "bob", "eve")), chance.sample(["dev", "admins"], chance.randint(0, 2))) if factors else ("", [])
            )
            claims = {"sub": ("1",), "preferred_username": (name,), "amr": ("pwd", "mfa")[:factors]}
            identity = user(groups=tuple(groups), group_ids=frozenset(groups), claims=claims) if factors else None
            try:
                gate_allows = decide(request(target, host, method, source_ip=address), identity, table, NOW).is_allowed
            except BadRequest:
                gate_allows = False
            authelia_allows = authelia.allows(host, target, method, address, name, groups, factors)
            counts[f"{'allowed' if authelia_allows else 'refused'} there, {'allowed' if gate_allows else 'refused'} here"] += 1
            if gate_allows and not authelia_allows:
                mismatches.append((control, host, target, method, address, name, groups, factors))
    assert mismatches[:1] == []
    # Where nothing is open, nothing is shown; most of these rules and requests are odd, and odd ones stay closed.
    assert counts["allowed there, allowed here"] > counts["allowed there, refused here"] / 2, counts


def routes(control: dict[str, Any], **top: Any) -> dict[str, dict[str, Any]]:
    found = yaml.safe_load(render_yaml(convert(foreign(control, **top), lambda: b"n" * 32), "x"))["policy"]
    return {route["from"].removeprefix("https://"): route for route in found}


def test_the_first_rule_that_matches_decides() -> None:
    rules = [
        {"domain": "a.example.com", "policy": "bypass", "resources": ["^/api/"]},
        {"domain": "*.example.com", "policy": "deny", "subject": "group:guests"},
        {"domain": "a.example.com", "policy": "one_factor"},
    ]
    found = routes({"rules": rules})
    signed_in = {"claim/sub": {"exists": True}}
    assert found["a.example.com"]["policy"] == [
        {"allow": {"or": [{"http_path": {"matches": "/api/.*"}}, {"and": [signed_in, {"not": {"groups": "guests"}}]}]}}
    ]
    assert list(found) == ["a.example.com", "*.example.com"]
    assert "policy" not in found["*.example.com"]


def test_users_and_networks_retain_their_meaning() -> None:
    subject = [["group:dev", "user:john"], "group:admins"]
    control = {"rules": [{"domain": "a.example.com", "policy": "two_factor", "subject": subject, "networks": ["inside"]}]}
    (block,) = routes(control, definitions={"network": INSIDE})["a.example.com"]["policy"]
    assert block["allow"]["and"] == [
        {"source_ip": {"in": ["10.1.0.0/16", "192.0.2.0/24"]}},
        {"or": [{"and": [{"groups": "dev"}, {"claim/preferred_username": "john"}]}, {"groups": "admins"}]},
        {"claim/amr": "mfa"},
    ]


@pytest.mark.parametrize(
    ("policy", "written"), [("bypass", "allow_public_unauthenticated_access"), ("one_factor", "allow_any_authenticated_user")]
)
def test_a_default_policy_alone_is_one_key(policy: str, written: str) -> None:
    route = routes({"default_policy": policy, "rules": [{"domain": "a.example.com", "policy": policy}]})["a.example.com"]
    assert route[written] is True
    assert "policy" not in route


def test_query_conditions_open_nothing_and_close_later_rules() -> None:
    rules = [
        {"domain": "a.example.com", "policy": "deny", "query": [[{"key": "x"}]]},
        {"domain": "a.example.com", "policy": "one_factor"},
    ]
    converted = convert(foreign({"rules": rules}), lambda: b"n" * 32)
    assert "allow_any_authenticated_user" not in render_yaml(converted, "x")
    assert converted.lost == 1


def test_file_without_host_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("access_control: {default_policy: one_factor}\ntheme: dark\n")
    text = render_yaml(convert(read(tmp_path / "a.yml"), lambda: b"n" * 32), "a.yml")
    assert "no rule names a host" in text
    assert "LOST theme (line 2)" in text
    assert yaml.safe_load(text)["policy"] == []
