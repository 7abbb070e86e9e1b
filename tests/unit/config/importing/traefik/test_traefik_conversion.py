"""Traefik's labels: the same hosts and containers, and all users are denied until the operator adds rules."""

from pathlib import Path
from typing import Any

import pytest

from config.importing.conversion import Conversion
from gateproject.management.commands.importconfig import imported

COMPOSE = """\
services:
  whoami:
    labels:
      - traefik.http.routers.whoami.rule=Host(`whoami.example.com`)
      - traefik.http.routers.whoami.middlewares=secured@docker
      - traefik.http.middlewares.secured.chain.middlewares=auth,zip
      - traefik.http.middlewares.zip.compress=true
      - traefik.http.services.whoami.loadbalancer.server.port=80
  api:
    labels:
      traefik.http.routers.api.rule: Host(`whoami.example.com`) && PathPrefix(`/v1`)
      traefik.http.routers.api.middlewares: strip
      traefik.http.middlewares.strip.stripprefix.prefixes: /v1
      traefik.http.services.api.loadbalancer.server.port: 9000
      traefik.http.services.api.loadbalancer.server.scheme: https
  auth:
    labels:
      - traefik.http.middlewares.auth.forwardauth.address=http://authelia:9091/api/authz/forward-auth
"""


def converted(directory: Path, text: str = COMPOSE) -> Conversion:
    (directory / "docker-compose.yml").write_text(text)
    return imported(directory / "docker-compose.yml")


def routes_of(found: Conversion) -> list[dict[str, Any]]:
    return [{entry.key: entry.value for entry in route.entries if entry.key} for route in found.routes]


def test_routers_become_routes_in_the_order_in_which_traefik_tries_them(tmp_path: Path) -> None:
    narrow, wide = routes_of(converted(tmp_path))
    assert (narrow["prefix"], narrow["prefix_rewrite"], narrow["to"]) == ("/v1", "/", "https://api:9000")
    assert (wide["from"], wide["to"], wide["preserve_host_header"]) == ("https://whoami.example.com", "http://whoami:80", True)


def test_forward_auth_denies_access_and_names_address(tmp_path: Path) -> None:
    found = converted(tmp_path)
    for route in routes_of(found):
        assert not {"policy", "allow_public_unauthenticated_access", "allow_any_authenticated_user"} & route.keys()
    notes = [[note.text for note in route.notes()] for route in found.routes]
    assert any("there was no authentication here" in text for text in notes[0])
    assert any("http://authelia:9091/api/authz/forward-auth made the decisions" in text for text in notes[1])
    assert any("middleware zip: applications compress" in text for text in notes[1])


def test_a_priority_that_is_written_counts(tmp_path: Path) -> None:
    text = COMPOSE.replace(
        "    labels:\n      - traefik.http.routers.whoami",
        "    labels:\n      - traefik.http.routers.whoami.priority=900\n      - traefik.http.routers.whoami",
        1,
    )
    assert [route.get("prefix") for route in routes_of(converted(tmp_path, text))] == [None, "/v1"]


def test_a_rule_without_a_host_and_one_that_is_not_understood_are_lost(tmp_path: Path) -> None:
    found = converted(
        tmp_path,
        "services: {a: {labels: ['traefik.http.routers.a.rule=PathPrefix(`/a`)', 'traefik.http.routers.b.rule=Host(', "
        "'traefik.http.routers.c.rule=Host(`x y`)']}}\n",
    )
    assert (found.routes, found.lost) == ([], 3)


def test_matcher_without_counterpart_is_reported_and_closes_route(tmp_path: Path) -> None:
    found = converted(
        tmp_path, "services: {a: {labels: ['traefik.http.routers.a.rule=Host(`a.example.com`) && ClientIP(`10.0.0.0/8`)']}}\n"
    )
    assert [note.text for note in found.routes[0].notes() if "ClientIP" in note.text]
    assert "policy" not in routes_of(found)[0]


def test_the_service_that_a_router_names_is_its_upstream(tmp_path: Path) -> None:
    labels = "'traefik.http.routers.a.rule=Host(`a.test`)', 'traefik.http.routers.a.service=s2', "
    services = ", ".join(f"'traefik.http.services.s{number}.loadbalancer.server.port=900{number}'" for number in (1, 2))
    (route,) = routes_of(converted(tmp_path, f"services: {{a: {{labels: [{labels}{services}]}}}}\n"))
    assert route["to"] == "http://a:9002"


@pytest.mark.parametrize(
    ("middleware", "is_lost"),
    [
        ("compress=true", False),
        ("headers.stsseconds=1", False),
        ("addprefix.prefix=/x", True),
        ("basicauth.users=x", True),
        ("ipallowlist.sourcerange=10.0.0.0/8", True),
    ],
)
def test_denial_by_another_middleware_is_remembered(tmp_path: Path, middleware: str, is_lost: bool) -> None:
    labels = (
        f"'traefik.http.routers.a.rule=Host(`a.test`)', 'traefik.http.routers.a.middlewares=m', 'traefik.http.middlewares.m.{middleware}'"
    )
    (route,) = converted(tmp_path, f"services: {{a: {{labels: [{labels}]}}}}\n").routes
    assert route.has_dropped_restrictions is is_lost


@pytest.mark.parametrize("more", [" && ClientIP(`10.0.0.0/8`)", " && !PathPrefix(`/admin`)"])
def test_a_matcher_that_is_lost_was_a_limit(tmp_path: Path, more: str) -> None:
    (route,) = converted(tmp_path, f"services: {{a: {{labels: ['traefik.http.routers.a.rule=Host(`a.test`){more}']}}}}\n").routes
    assert route.has_dropped_restrictions


def test_middleware_of_another_file_may_be_limit_with_known_address(tmp_path: Path) -> None:
    assert [(route.has_dropped_restrictions, route.auth_urls) for route in converted(tmp_path).routes] == [
        (False, ()),
        (False, ("http://authelia:9091/api/authz/forward-auth",)),
    ]
    router = "traefik.http.routers.a.rule: Host(`a.test`), traefik.http.routers.a.middlewares: x@file"
    (route,) = converted(tmp_path, f"services: {{a: {{labels: {{{router}}}}}}}").routes
    assert route.has_dropped_restrictions
