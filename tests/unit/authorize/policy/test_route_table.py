"""Route selection, and that no spelling of a path evades the route that protects it."""

import contextlib
import random

import pytest

from authorize.policy.route_table import RouteTable
from config.routes.route import Route
from foundation.errors import AmbiguousPath, BadRequest, ConfigError, PathTooAmbiguous
from tests.unit.authorize.builders import make_route, request, table


def name_of(routes: RouteTable, target: str = "/", host: str = "app.example.com") -> str | None:
    found = routes.match(request(target, host))
    return found.route.name if found else None


def test_the_first_match_in_the_list_wins() -> None:
    routes = table(make_route(name="a", prefix="/a"), make_route(name="all"), make_route(name="never", prefix="/a/b"))
    assert [name_of(routes, path) for path in ("/a/b", "/x", "/")] == ["a", "all", "all"]


def test_exact_host_precedes_wildcard() -> None:
    routes = table(make_route("*.example.com", name="wild"), make_route("app.example.com", name="exact"))
    assert (name_of(routes, host="app.example.com"), name_of(routes, host="b.example.com")) == ("exact", "wild")


def test_host_with_own_routes_never_uses_wildcard() -> None:
    routes = table(make_route("app.example.com", name="exact", prefix="/a"), make_route("*.example.com", name="wild"))
    assert name_of(routes, "/b", "app.example.com") is None


def test_wildcard_never_matches_reserved_host() -> None:
    routes = [
        make_route("*.example.com"),
        make_route("*.example.com:8443"),
        make_route("*.example.com", **{"from": "tcp+https://*.example.com:22", "to": "tcp://a:22"}),
    ]
    own = RouteTable.build(routes, client_ca=None, reserved_hosts=frozenset({"auth.example.com"}))
    for host, is_known in (("auth.example.com", False), ("app.example.com", True), ("auth2.example.com", True)):
        known = {own.has_host(host, None), own.has_host(host, 8443), own.has_host(host, 22, True), own.has_tunnels_for(host)}
        assert known == {is_known}, host


@pytest.mark.parametrize("host", ["example.com", "a.b.example.com", "xexample.com", "example.com.evil"])
def test_wildcard_matches_exactly_one_label(host: str) -> None:
    assert name_of(table(make_route("*.example.com", name="wild")), host=host) is None


@pytest.mark.parametrize(
    ("from_host", "host", "matches"),
    [
        ("app.example.com", "app.example.com", True),
        ("app.example.com", "APP.EXAMPLE.com", True),
        ("app.example.com", "app.example.com.", True),
        ("app.example.com", "app.example.com:443", True),
        ("app.example.com", "app.example.com:80", False),
        ("app.example.com", "app.example.com:8443", False),
        ("app.example.com:443", "app.example.com", True),
        ("app.example.com:8443", "app.example.com:8443", True),
        ("app.example.com:8443", "app.example.com", False),
        ("*.example.com:8443", "b.example.com:8443", True),
        ("*.example.com:8443", "b.example.com", False),
        ("bücher.example", "xn--bcher-kva.example", True),
        ("[::1]", "[0:0:0:0:0:0:0:1]:443", True),
        ("app.example.com", "other.example.com", False),
    ],
)
def test_the_route_depends_on_host_and_port_alone(from_host: str, host: str, matches: bool) -> None:
    routes = table(make_route(from_host, name="it"))
    found = request("/", host)
    assert (name_of(routes, host=host) == "it") is matches
    assert routes.has_host(found.host, found.port) is matches


def test_without_encryption_port_80_is_a_default_port_too() -> None:
    routes = table(make_route("app.example.com:80", name="it"), default_ports=frozenset({80, 443}))
    assert name_of(routes) == "it"


def test_every_problem_of_every_route_is_reported() -> None:
    with pytest.raises(ConfigError) as caught:
        table(make_route(prefix="/a\\"), make_route(), make_route(path="/%00", regex="/ö"))
    assert [problem.key for problem in caught.value.problems] == ["policy[0].prefix", "policy[2].path", "policy[2].regex"]


PROTECTED = table(make_route(name="protected", prefix="/admin/"), make_route(name="public"))


@pytest.mark.parametrize(
    "target", ["/admin", "/administrator", "/x/admin/", "/%2562dmin/", "/ADMIN/", "/x?/admin/", "/a%2Fb", "/a;b", "//x", "/x%252fadmin/"]
)
def test_a_path_that_only_looks_similar_belongs_to_the_other_route(target: str) -> None:
    assert name_of(PROTECTED, target) == "public"


@pytest.mark.parametrize(
    ("prefix", "target"),
    [("/@admin", "/%40admin"), ("/%40admin", "/@admin"), ("/a|b", "/a%7Cb"), ("/a%2Fb", "/a/b")],
)
def test_an_escape_of_a_reserved_character_is_no_way_around_a_prefix(prefix: str, target: str) -> None:
    routes = table(make_route(name="protected", prefix=prefix), make_route(name="public"))
    with pytest.raises(BadRequest):
        name_of(routes, target)


def test_a_protected_expression_is_as_hard_to_avoid_as_a_prefix() -> None:
    routes = table(make_route(name="protected", regex="/admin/.*"), make_route(name="public"))
    for target in ("/%2Fadmin/x", "//admin/x", "/;y/admin/x", "/admin%2Fx"):
        with pytest.raises(BadRequest):
            name_of(routes, target)


@pytest.mark.parametrize("keys", [{}, {"prefix": "/projects/"}, {"regex": "/projects/[^/]+%2F[^/]+/files(;v=\\d)?"}])
def test_an_encoded_slash_or_a_parameter_is_fine_where_one_route_owns_both_readings(keys: dict[str, str]) -> None:
    assert name_of(table(make_route(name="it", **keys)), "/projects/group%2Fname/files;v=1") == "it"


STRANGEST = "//x;a%2Fb%25252F%3F%23%3B%40" * 290


def test_a_first_route_that_takes_every_path_needs_no_readings() -> None:
    for keys in ({}, {"prefix": "/"}):
        routes = table(make_route(name="all", **keys), make_route(name="never", prefix="/admin"))
        for target in (STRANGEST, "//admin", "/admin;x"):
            assert name_of(routes, target) == "all"


@pytest.mark.parametrize(
    "layout",
    [
        [{"prefix": "/admin"}, {}],
        [{"path": "/x"}],
        [{"regex": "/.*"}],
        [{"prefix": "//"}],
        [{"path": "/"}, {}],
        [{"regex": "(?:%[0-9A-F]{2}|[^%])*"}],
    ],
)
def test_path_with_too_many_interpretations_is_refused_on_any_route(layout: list[dict[str, str]]) -> None:
    for target in (STRANGEST, "/a;b//c%2Fd;e"):
        with pytest.raises(PathTooAmbiguous, match="semicolons"):
            name_of(table(*(make_route(name="it", **keys) for keys in layout)), target)


ENCODED_NAMES = ("/files/a%40b.txt", "/files/a%2Bb", "/files/a%2Cb", "/files/%40", "/files/a%20b%40")
CLASSES = ("/files/[A-Za-z0-9_.%-]+", "/files/(?:[A-Za-z0-9_.~-]|%[0-9A-F]{2})+")


@pytest.mark.parametrize("regex", CLASSES)
@pytest.mark.parametrize("behind", [[], [{}], [{"prefix": "/files/"}, {}]], ids=["alone", "before all", "before a prefix"])
def test_an_expression_that_takes_escapes_owns_the_names_they_encode(regex: str, behind: list[dict[str, str]]) -> None:
    routes = table(make_route(name="files", regex=regex), *(make_route(name="other", **keys) for keys in behind))
    for target in ENCODED_NAMES:
        assert name_of(routes, target) == "files"


@pytest.mark.parametrize("regex", CLASSES)
@pytest.mark.parametrize(
    "keys",
    [{"path": "/files/@admin"}, {"prefix": "/files/@"}, {"path": "/files/%40admin"}, {"regex": "/files/@.*"}, {"regex": "/[a-z/@]*"}],
)
def test_an_expression_that_takes_escapes_owns_no_name_that_another_route_has(regex: str, keys: dict[str, str]) -> None:
    files, other = make_route(name="files", regex=regex), make_route(name="other", **keys)
    for routes in (table(files, other), table(other, files), table(files, other, make_route(name="rest"))):
        with contextlib.suppress(AmbiguousPath):
            assert name_of(routes, "/files/%40admin") == "other"
    for target in ("/files/a%2F%40", "/files/a%3Bb%40", "/files/%2540"):
        with pytest.raises(AmbiguousPath):
            name_of(table(files, make_route(name="rest")), target)


def test_path_matching_earlier_route_in_another_interpretation_is_refused() -> None:
    routes = table(make_route(name="front", regex="/files/a[@%0-9]*"), make_route(name="files", regex="/files/[a-z0-9%;]+"))
    with pytest.raises(AmbiguousPath):
        name_of(routes, "/files/a%40;x")


def test_an_expression_that_leaves_a_character_out_owns_no_escape_of_it() -> None:
    with pytest.raises(AmbiguousPath):
        name_of(table(make_route(name="some", regex="/[^@]*"), make_route(name="rest")), "/%40admin")


def test_ten_thousand_hosts_are_found_by_name() -> None:
    routes = table(*(make_route(f"h{number}.example.com", name=str(number)) for number in range(10_000)))
    assert name_of(routes, host="h9999.example.com") == "9999"
    assert repr(routes) == "<RouteTable 10000 routes, 10000 hosts>"


def test_unchanged_routes_are_reused_unless_client_ca_changes() -> None:
    unchanged, gone, new = make_route("a.example.com"), make_route("b.example.com"), make_route("c.example.com")
    first = RouteTable.build((unchanged, gone), client_ca=None)
    second = RouteTable.build((new, unchanged), client_ca=None, previous=first)
    assert [compiled.route for compiled in second.routes()] == [new, unchanged]
    assert second.routes()[1] is first.routes()[0]
    third = RouteTable.build((new, unchanged), client_ca=b"authority", previous=second)
    assert [compiled.client_ca is not None for compiled in third.routes()] == [True, True]
    fourth = RouteTable.build((new, unchanged), client_ca=None, previous=third)
    assert [compiled.client_ca for compiled in fourth.routes()] == [None, None]
    fifth = RouteTable.build((new, unchanged), client_ca=None, with_shadow=True, previous=fourth)
    assert not {*map(id, fifth.routes())} & {*map(id, fourth.routes())}
    sixth = RouteTable.build((new, unchanged), client_ca=None, previous=fifth)
    assert not {*map(id, sixth.routes())} & {*map(id, fifth.routes())}


def test_tunnels_and_requests_never_match_each_others_routes() -> None:
    tunnel = make_route(name="tunnel", **{"from": "tcp+https://db.example.com:5432", "to": "tcp://db.internal:5432"})
    default = make_route(name="443", **{"from": "tcp+https://app.example.com:443", "to": "tcp://a.internal:22"})
    wild = make_route(name="wild", **{"from": "tcp+https://*.example.com:22", "to": "tcp://b.internal:22"})
    routes = table(tunnel, default, wild, make_route(name="app"), make_route("db.example.com:5432", name="web"))

    def found(method: str, host: str) -> str | None:
        match = routes.match(request("/", host, method))
        return match.route.name if match else None

    assert [found("CONNECT", f"{host}.example.com:{port}") for host, port in (("db", 5432), ("app", 443), ("x", 22))] == [
        "tunnel",
        "443",
        "wild",
    ]
    assert [found("CONNECT", f"{host}.example.com:{port}") for host, port in (("db", 5433), ("app", 80), ("x.y", 22))] == [None] * 3
    assert [found(method, "db.example.com:5432") for method in ("GET", "CONNECTED", "")] == ["web"] * 3
    assert [found("GET", host) for host in ("app.example.com", "app.example.com:443", "x.example.com:22")] == ["app", "app", None]
    assert [routes.has_tunnels_for(f"{host}.example.com") for host in ("db", "x", "a.b")] == [True, True, False]


def seen(routes: RouteTable) -> object:
    by_address = [(address, [each.route.name for each in found.routes], found.have_escapes) for address, found in routes._by_host.items()]
    return by_address, [each.route.name for each in routes.routes()], routes.ports, routes.hosts, routes.identity_header_names._by_upstream


@pytest.mark.parametrize("seed", range(10))
def test_route_table_after_any_change_matches_a_full_build(seed: int) -> None:
    chance = random.Random(seed)

    def new(number: int) -> Route:
        more = chance.choice(({}, {"mode": "shadow"}, {"identity_headers": "remote-user"}, {"regex": "/a%40.*"}, {"prefix": "/x/"}))
        return make_route(f"app{chance.randrange(4)}.example.com{chance.choice(('', ':80', ':8443'))}", name=str(number), **more)

    number, routes, known = 6, [new(number) for number in range(6)], None
    for _ in range(40):
        ports = chance.choice((frozenset({443}),) * 5 + (frozenset({80, 443}),))
        known = RouteTable.build(routes, ports, client_ca=None, with_shadow=chance.random() < 0.1, previous=known)
        shadow = known._compile_key[1]
        assert seen(known) == seen(RouteTable.build(routes, ports, client_ca=None, with_shadow=shadow))
        place, kind = chance.randrange(len(routes)), chance.randrange(4)
        if kind == 0 and len(routes) > 1:
            routes.pop(place)
        elif kind == 1:
            routes[place], number = new(number), number + 1
        elif kind == 2:
            chance.shuffle(routes)
        else:
            routes.insert(place, chance.choice((new(number), routes[-1])))
            number += 1
