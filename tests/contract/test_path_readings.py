"""Layouts of routes against servers that read paths in their own ways: what passes unasked, each of them may serve to anybody."""

import contextlib
import string
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authorize.policy.decision import Outcome, decide
from authorize.policy.route_table import RouteTable
from foundation.errors import BadRequest
from tests.support.path_parsers import READERS, served
from tests.support.route_layouts import EVERYTHING, LAYOUTS, STATIC, LayoutRoute, open_to_all
from tests.unit.authorize.builders import NOW, make_route, request, table


def passes_unasked(routes: RouteTable, target: str) -> bool:
    return decide(request(target), None, routes, NOW).outcome is Outcome.ALLOWED


PIECES = (
    *("/", "//", "a", "users", "admin", "public", "x", "x.css", ".", "..", ";", ";v=1", ";/", "/;x", "@", "+", "|", "~", ":", "%20"),
    *("%2F", "%2f", "%3B", "%3b", "%3F", "%23", "%25", "%252F", "%253B", "%253F", "%255C", "%2525", "%252561", "%40", "%C3%A4", "%2e"),
    *("/(S(x))", "(A(x)F(y))/", "%28S(x)%29"),
)
PATHS = st.lists(st.sampled_from(PIECES), max_size=9).map(lambda pieces: "/" + "".join(pieces))
PLACES = ("/users", "/admin/users", "/public/x", "/admin", "/x.css")
# In front of a place, inside it and behind it.
AROUND = st.tuples(PATHS, st.sampled_from(PLACES), st.lists(st.sampled_from(PIECES), max_size=4).map("".join)).map("".join)
CONDITIONS = st.sampled_from(
    [
        EVERYTHING, STATIC, ("regex", "/[^/]*"), ("regex", "/[a-z]+"), ("regex", "/.*;.*"), ("regex", "/[^;]*"), ("regex", "/admin.*"),
        ("regex", "/a(dmin|/.*)"), ("path", "/users"), ("path", "/admin/users"), ("path", "/"), ("path", "/x.css"), ("prefix", "/a"),
        ("prefix", "/admin"), ("prefix", "/admin/"), ("prefix", "/public/"), ("prefix", "/u"), ("prefix", "/x"),
    ]
)  # fmt: skip
OPERATORS = ("is", "starts_with", "ends_with", "contains", "matches")
DENIALS = st.one_of(
    st.just({}),
    st.dictionaries(
        st.sampled_from([*OPERATORS, *(f"not_{operator}" for operator in OPERATORS)]),
        st.sampled_from(["/users", "/admin", "/admin/users", "/x.css", "/public/"]),
        max_size=1,
    ),
)
ROUTES = st.lists(st.builds(LayoutRoute, CONDITIONS, st.booleans(), DENIALS), min_size=1, max_size=4)


def require_same_reading(layout: list[LayoutRoute], routes: RouteTable, target: str) -> None:
    try:
        path = request(target).path
        is_let_in = passes_unasked(routes, target)
    except BadRequest:
        return
    if is_let_in:
        for name, reader in READERS.items():
            found = served(reader, path)
            assert found is None or open_to_all(layout, found), f"{name} serves {found} for {path}"


def routes_of(layout: list[LayoutRoute]) -> RouteTable:
    protected = {"allow_any_authenticated_user": True}
    return table(*(make_route(**route.keys(), **({} if route.is_open else protected)) for route in layout))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_server_may_serve_paths_allowed_in_a_common_layout(layout: list[LayoutRoute]) -> None:
    routes = routes_of(layout)

    @settings(max_examples=50)
    @given(st.one_of(PATHS, AROUND))
    def check(target: str) -> None:
        require_same_reading(layout, routes, target)

    check()


@settings(max_examples=250)
@given(ROUTES, st.lists(st.one_of(PATHS, AROUND), min_size=3, max_size=3))
def test_every_server_may_serve_paths_allowed_in_any_layout(layout: list[LayoutRoute], targets: list[str]) -> None:
    routes = routes_of(layout)
    for target in targets:
        require_same_reading(layout, routes, target)


OPENINGS = {
    "exact before a public prefix": [
        "/users;%2Fx",
        "/users;x",
        "/users%3Bx",
        "/users%3Fx",
        "/users%23",
        "//users",
        "/%2Fusers",
        "//x/users",
    ],
    "prefix before a public one": [
        "/%2Fadmin/x",
        "//x/admin",
        "//x%2Fy/admin%2F",
        "/;/admin",
        "/%252Fadmin",
        "/x;/../admin",
        "/%2561dmin",
        "/(S(x))/admin/x",
        "/(A(x)S(y))/(F(..))/admin",
    ],
    "public exact before a prefix": [],
    "public prefix before all": ["/public/;%2F../admin", "/public/.%3F", "/public/..%2Fadmin", "/public/%2e%2e;/admin"],
    "static files are public": ["/admin/users;x.css", "/admin/users%3Bx.css", "/admin/users%3Fx.css", "/admin/users%23.css", "/a;/x.css"],
    "one segment is public": ["/admin%2Fusers", "/admin%252Fusers", "/;%2Fadmin"],
    "one segment, and nothing else": ["/admin%2Fusers"],
    "no parameters": ["/admin;x", "/admin%3Bx"],
    "public below protected below public": ["/admin/public/;%2F../x", "/admin;x/users", "/admin%2Fusers", "/admin/%2Fpublic/x"],
    "deny is": ["/users;%2Fx", "/users;x", "/%2Fusers", "/users%3F"],
    "deny matches": ["/admin;%2Fx", "/admin%2Fx", "//admin", "//x%2Fy/admin%2F"],
    "deny not_matches": ["/admin/users;x.css", "/admin%3Fx.css"],
    "deny not_starts_with": ["/public/;/..%2Fadmin", "//public/x"],
}


@pytest.mark.parametrize(("layout", "target"), [(name, target) for name, targets in OPENINGS.items() for target in targets])
def test_alternative_spelling_of_protected_path_is_denied(layout: str, target: str) -> None:
    with contextlib.suppress(BadRequest):
        assert not passes_unasked(routes_of(LAYOUTS[layout]), target)


NAMES = [
    *(
        "index.html",
        "a b",
        "äöü",
        "漢字.png",
        "ann@corp.com",
        "12:30",
        "a+b",
        "a,b",
        "~ann",
        "!",
        "$1",
        "a&b",
        "it's",
        "(1)",
        "*",
        "k=v",
        "-._~",
    ),
    *("100", "Ünïcödé näme.css", "a.b.c.js", "a@b.css", "x y.png", ".well-known", "...", "a..b"),
]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("stored", ["", "@:!$&'()*+,=~"], ids=["encoded by programs", "as browsers write them"])
def test_ordinary_paths_select_their_route(layout: list[LayoutRoute], stored: str) -> None:
    """By its rules, whatever they say: none is refused for how it is written."""
    routes = routes_of(layout)
    for name in NAMES:
        for place in ("/", "/users/", "/admin/", "/admin/public/", "/public/files/"):
            target = place + quote(name, safe=stored)
            plain = request(target).path
            assert passes_unasked(routes, target) is open_to_all(layout, plain), target


@given(st.text(string.ascii_letters + string.digits + "-_~!$&'()*+,=:@ ä漢", min_size=1, max_size=12), ROUTES)
def test_an_ordinary_name_is_never_refused_for_how_it_is_written(name: str, layout: list[LayoutRoute]) -> None:
    decide(request("/" + quote(name, safe="")), None, routes_of(layout), NOW)
    decide(request("/admin/" + quote(name, safe="@:!$&'()*+,=~")), None, routes_of(layout), NOW)


def test_parameters_and_encoded_slashes_pass_where_one_route_owns_all_readings() -> None:
    routes = table(make_route(name="api", prefix="/api/"), make_route(name="rest"))
    for target in (
        "/api/projects/group%2Fname",
        "/api/items;id=5/parts;v=1",
        "/api//x",
        "/api/job/feature%252Fx",
        "/api/what%3Fever",
        "/a;b",
    ):
        assert routes.match(request(target)).route.name == ("api" if target.startswith("/api/") else "rest")


def test_a_route_that_names_an_encoded_slash_stays_within_reach() -> None:
    for keys in ({"path": "/a%2Fb"}, {"prefix": "/a%2Fb"}, {"regex": "/[a-z]+%2F[a-z]+"}, {"prefix": "/a%2Fb/", "regex": "/a%2Fb.*"}):
        routes = table(make_route(name="it", **keys), make_route(name="rest"))
        target = "/a%2Fb/" if "prefix" in keys and "regex" in keys else "/a%2Fb"
        assert routes.match(request(target)).route.name == "it"
    # A plain path is no other's because an expression names an encoded one.
    routes = table(make_route(name="it", regex="/api/[^/]+%2F[^/]+"), make_route(name="rest"))
    assert routes.match(request("/api/5/issues")).route.name == "rest"
