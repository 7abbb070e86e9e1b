"""authentik's proxy providers: users who are bound to an application may open it, all others are denied."""

import json
from pathlib import Path
from typing import Any

import pytest

from config.importing.conversion import Conversion
from gateproject.management.commands.importconfig import imported

GROUPS = [{"pk": "g1", "name": "developers"}, {"pk": "g2", "name": "ops"}]
PROVIDER = {"pk": 5, "name": "wiki", "mode": "proxy", "external_host": "https://wiki.example.com", "internal_host": "http://wiki:8080/"}


def converted(
    directory: Path, *bindings: dict[str, Any], engine: str = "any", provider: dict[str, Any] | None = None, **rest: Any
) -> Conversion:
    document = {
        "providers": [{**PROVIDER, **(provider or {})}],
        "applications": [{"pk": "a1", "provider": 5, "policy_engine_mode": engine}],
        "bindings": [{"target": "a1", **binding} for binding in bindings],
        "groups": GROUPS,
        **rest,
    }
    (directory / "authentik.json").write_text(json.dumps(document))
    return imported(directory / "authentik.json")


def route_of(found: Conversion) -> dict[str, Any]:
    (route,) = found.routes
    return {entry.key: entry.value for entry in route.entries if entry.key}


def allowed(found: Conversion) -> Any:
    route = route_of(found)
    return route["policy"][0]["allow"] if "policy" in route else route.get("allow_any_authenticated_user", False)


def test_a_provider_becomes_a_route(tmp_path: Path) -> None:
    route = route_of(converted(tmp_path, {"group": "g1"}, provider={"internal_host_ssl_validation": False}))
    assert (route["from"], route["to"], route["tls_skip_verify"]) == ("https://wiki.example.com", "http://wiki:8080", True)
    assert route["policy"] == [{"allow": {"groups": "developers"}}]


DEVELOPERS, OPS = {"groups": "developers"}, {"groups": "ops"}


@pytest.mark.parametrize(
    ("bindings", "engine", "expected"),
    [
        ([], "any", True),
        ([{"group": "g1"}, {"group": "g2"}], "any", {"or": [DEVELOPERS, OPS]}),
        ([{"group": "g1"}, {"group": "g2"}], "all", {"and": [DEVELOPERS, OPS]}),
        ([{"group": "g1", "negate": True}], "any", {"not": DEVELOPERS}),
        ([{"group": "g1"}, {"policy": "p"}], "any", DEVELOPERS),
        ([{"group": "g1"}, {"policy": "p"}], "all", False),
        ([{"policy": "p"}], "any", False),
        ([{"group": "unknown"}], "any", False),
        ([{"group": "g1", "enabled": False}], "any", False),
        ([{"group": "g1"}, {"group": "g2", "enabled": False}], "all", DEVELOPERS),
        ([{"user": 3, "user_obj": {"username": "ann"}}], "any", {"claim/preferred_username": "ann"}),
    ],
)
def test_bindings_keep_their_meaning_or_open_nothing(tmp_path: Path, bindings: list[dict[str, Any]], engine: str, expected: Any) -> None:
    assert allowed(converted(tmp_path, *bindings, engine=engine)) == expected


@pytest.mark.parametrize(
    "rest",
    [{"bindings": {"pagination": {"next": 2}, "results": []}}, {"bindings": [{"target": "elsewhere", "group": "g1"}]}, {"bindings": None}],
    ids=["one page of two", "a target that is not in the file", "no bindings told"],
)
def test_ambiguous_bindings_deny_access(tmp_path: Path, rest: dict[str, Any]) -> None:
    found = converted(tmp_path, **rest)
    assert allowed(found) is False
    assert "CHECK" in [note.mark for note in found.routes[0].notes()]


def test_one_page_of_bindings_is_not_enough_for_all(tmp_path: Path) -> None:
    page = {"pagination": {"next": 2}, "results": [{"target": "a1", "group": "g1"}]}
    assert allowed(converted(tmp_path, engine="all", bindings=page)) is False
    assert allowed(converted(tmp_path, engine="any", bindings=page)) == DEVELOPERS


def test_a_provider_without_an_application_is_closed(tmp_path: Path) -> None:
    assert allowed(converted(tmp_path, applications=[])) is False


def test_skipped_paths_are_open_and_covered_by_tests(tmp_path: Path) -> None:
    found = converted(tmp_path, {"group": "g1"}, provider={"skip_path_regex": "^/health$\n^/static/.*\n"})
    assert allowed(found) == {"or": [{"http_path": {"matches": "/health"}}, {"http_path": {"matches": "/static/.*"}}, DEVELOPERS]}
    assert [(test["url"], test["expect"]) for test in found.tests] == [
        ("https://wiki.example.com/health", "allow"),
        ("https://wiki.example.com/static/", "allow"),
        ("https://wiki.example.com/", "allow"),
        ("https://wiki.example.com/", "sign-in"),
    ]


def test_hosts_of_domain_mode_must_be_written_by_hand(tmp_path: Path) -> None:
    found = converted(tmp_path, provider={"mode": "forward_domain", "cookie_domain": "example.com"})
    assert found.routes == []
    assert found.lost == 2


def test_a_path_comes_before_the_host_alone_and_http_becomes_https(tmp_path: Path) -> None:
    other = {**PROVIDER, "pk": 6, "external_host": "http://wiki.example.com/admin"}
    applications = [{"pk": "a1", "provider": 5}, {"pk": "a2", "provider": 6}]
    found = converted(tmp_path, providers=[PROVIDER, other], applications=applications)
    written = [{entry.key: entry.value for entry in route.entries} for route in found.routes]
    assert [(route["from"], route.get("prefix")) for route in written] == [
        ("https://wiki.example.com", "/admin"),
        ("https://wiki.example.com", None),
    ]
