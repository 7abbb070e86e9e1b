"""Access rules come from one file and upstreams from another; merging never allows more than either."""

import pytest

from config.importing.conversion import Conversion, ConvertedSection
from config.importing.foreign_file import AUTHELIA
from config.importing.merged_upstreams import merge_upstreams
from config.importing.preamble import NO_UPSTREAM


def part(host: str, **keys: object) -> ConvertedSection:
    route = ConvertedSection()
    route.set(None, "from", f"https://{host}")
    for key, value in keys.items():
        route.set(None, key, value)
    return route


def together(access_sections: list[ConvertedSection], where: list[ConvertedSection]) -> tuple[list[dict[str, object]], Conversion]:
    converted, places = Conversion(AUTHELIA, routes=access_sections), Conversion("y", routes=where)
    merge_upstreams(converted, places)
    return [{entry.key: entry.value for entry in route.entries if entry.key} for route in converted.routes], converted


def test_each_place_of_a_host_gets_the_policy_of_the_host() -> None:
    policy = [{"allow": {"groups": "a"}}]
    places = [part("a.test", to="http://one", prefix="/x"), part("a.test", to="http://two")]
    places[0].note("CHECK", "all users are denied: decided elsewhere")
    routes, converted = together([part("a.test", to=NO_UPSTREAM, policy=policy)], places)
    assert routes == [
        {"from": "https://a.test", "to": "http://one", "prefix": "/x", "policy": policy},
        {"from": "https://a.test", "to": "http://two", "policy": policy},
    ]
    assert not [note for route in converted.routes for note in route.notes()]


def test_a_host_of_its_own_is_not_the_wildcards() -> None:
    open_to_all = {"allow_public_unauthenticated_access": True}
    access_sections = [part("a.example.com", to=NO_UPSTREAM), part("*.example.com", to=NO_UPSTREAM, **open_to_all)]
    routes, _ = together(
        access_sections,
        [part("a.example.com", to="http://a"), part("b.example.com", to="http://b"), part("c.b.example.com", to="http://c")],
    )
    assert routes == [
        {"from": "https://a.example.com", "to": "http://a"},
        {"from": "https://b.example.com", "to": "http://b", **open_to_all},
        {"from": "https://*.example.com", "to": NO_UPSTREAM, **open_to_all},
    ]


def test_location_never_grants_access() -> None:
    routes, _ = together([part("a.test", to=NO_UPSTREAM)], [part("a.test", to="http://a", allow_any_authenticated_user=True)])
    assert routes == [{"from": "https://a.test", "to": "http://a"}]


def test_forwarding_route_stays_and_host_without_rule_is_reported() -> None:
    routes, converted = together([part("a.test", to="http://mine")], [part("a.test", to="http://theirs"), part("b.test", to="http://b")])
    assert routes == [{"from": "https://a.test", "to": "http://mine"}]
    assert [note.text for note in converted.top.notes() if "b.test" in note.text]


OUTPOST, PORTAL = "http://a:9000/outpost.goauthentik.io/auth/traefik", "http://authelia:9091/api/authz/forward-auth"


@pytest.mark.parametrize(
    ("auth_urls", "has_dropped_restrictions", "is_open"),
    [
        ((PORTAL,), False, True),
        (("http://authelia:9091/api/verify?rd=https://x",), False, True),
        ((), False, True),  # no forward auth: the rules apply here, too
        ((PORTAL,), True, False),
        ((PORTAL, "http://bouncer:8080/api/v1/forwardAuth"), False, False),
        ((OUTPOST,), False, False),
    ],
)
def test_a_place_with_limits_of_its_own_is_closed(auth_urls: tuple[str, ...], has_dropped_restrictions: bool, is_open: bool) -> None:
    place = part("a.test", to="http://a")
    place.auth_urls, place.has_dropped_restrictions = auth_urls, has_dropped_restrictions
    (route,), _ = together([part("a.test", to=NO_UPSTREAM, allow_any_authenticated_user=True)], [place])
    assert ("allow_any_authenticated_user" in route) is is_open


def test_rules_on_paths_are_not_held_against_a_path_that_was_cut_before() -> None:
    access_sections = [part("a.test", to=NO_UPSTREAM, policy=[{"allow": {"http_path": {"matches": "/x.*"}}}])]
    (cut, whole), _ = together(
        access_sections, [part("a.test", to="http://a", prefix="/x", prefix_rewrite="/"), part("a.test", to="http://a")]
    )
    assert "policy" not in cut
    assert "policy" in whole
