import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorize.policy.paths.canonical import canonical_path
from config.routes.route import Route
from foundation.errors import BadRequest
from proxy.rewriting.target import HostRewrite, PathRewrite, build_target, strip_token, upstream_hostname
from proxy.rewriting.target import substitution as substitution_of


def make_route(**keys):
    return Route.model_validate({"from": "https://app.example.com", **keys})


def upstream_path(request_path, /, **keys):
    return PathRewrite.build(make_route(**keys)).apply(request_path)


ROW = re.compile(r"^\| `(http:[^`]*)` \| (.*?) ?\| `([^`]*)` \| `([^`]*)` \|$", re.MULTILINE)


def documented():
    """Yield the rows of "Path rewrites" in docs/guides/upstreams.md: route keys, request path, upstream path."""
    text = (Path(__file__).parents[4] / "docs/guides/upstreams.md").read_text()
    for to, keys, path, expected in ROW.findall(text):
        yield {"to": to, **dict(key.split(": ", 1) for key in re.findall(r"`([^`]*)`", keys))}, path, expected


# Cases that the table of the documentation does not list.
JOINS = [
    ({"to": "http://u"}, "//foo", "//foo"),
    ({"to": "http://u/"}, "//foo", "//foo"),
    ({"to": "http://u/base"}, "//foo", "/base//foo"),
    ({"to": "http://u/base/"}, "//foo", "/base//foo"),
    ({"to": "http://u/base//"}, "/foo", "/base/foo"),
    ({"to": ["http://u/base/", "http://v/base/"]}, "/foo", "/base/foo"),
    ({"to": "http://u/x", "prefix": "/admin"}, "/admin", "/x/admin"),
    ({"to": "http://u/x/", "prefix": "/admin/"}, "/admin/foo", "/x/admin/foo"),
    ({"to": "http://u/x", "prefix": "/admin", "prefix_rewrite": "/y"}, "/admin/foo", "/y/foo"),
    ({"to": "http://u", "prefix": "/admin", "prefix_rewrite": "/"}, "/admin", "/"),
    ({"to": "http://u", "prefix_rewrite": "/y/"}, "/foo", "/y/foo"),
    ({"to": "http://u", "prefix_rewrite": "/"}, "//foo", "//foo"),
    ({"redirect": {"host_redirect": "a.example"}}, "/foo", "/foo"),
    ({"to": "http://u", "prefix": "/a"}, "/a/%2Fb", "/a/%2Fb"),
]


def test_documented_table_is_parsed_completely():
    assert len(list(documented())) == 13


@pytest.mark.parametrize(("keys", "path", "expected"), [*documented(), *JOINS])
def test_joins_path_of_to(keys, path, expected):
    assert upstream_path(path, **keys) == expected


@given(
    st.sampled_from(["", "/", "/base", "/base/", "/a/b//"]),
    st.sampled_from([{}, {"prefix": "/a"}, {"path": "/a/x"}, {"regex": "/.*"}]),
    st.text(alphabet="abc/", max_size=8),
)
def test_to_itself_never_makes_a_double_slash(base, keys, rest):
    path = "/a/" + rest
    assert upstream_path(path, to=f"http://u{base}", **keys).count("//") == path.count("//")


def test_replaces_the_canonical_prefix():
    rewrite = PathRewrite.build(make_route(to="http://u", prefix="/%61dmin", prefix_rewrite="/x"), "/admin")
    assert rewrite.apply("/admin/foo") == "/x/foo"


@pytest.mark.parametrize("path", ["/a//evil.com", "/a///evil.com", "/a//"])
def test_rewritten_path_never_starts_with_two_slashes(path):
    assert not upstream_path(path, to="http://u", prefix="/a", prefix_rewrite="/").startswith("//")


@pytest.mark.parametrize(
    "rest",
    ["../x", "..", ".", "./x", "/..;/x", "..;v=1/x", "..%3B/x", "..%3bv=1/x", "/%2e%2e/x", "..%2Fx", "/..%2fx", "/b%2f..", "/x%5c..%5Cy"],
)
def test_rewriting_never_leaves_the_base_path(rest):
    with pytest.raises(BadRequest):
        upstream_path("/a" + rest, to="http://u", prefix="/a", prefix_rewrite="/base/")


@pytest.mark.parametrize("path", ["/a/...", "/a/x..", "/a/..x", "/a/.hidden", "/a/x;..", "/a/%2Fx"])
def test_dots_inside_a_segment_pass(path):
    assert upstream_path(path, to="http://u", prefix="/a/", prefix_rewrite="/base/") == "/base/" + path.removeprefix("/a/")


@given(
    st.text(alphabet="/.;%2eEfFa\\ \r\n?#", max_size=20),
    st.sampled_from([{"to": "http://u/base/"}, {"to": "http://u/base"}, {"to": "http://u", "prefix_rewrite": "/base/"}]),
)
def test_a_forwarded_path_stays_below_its_base(rest, keys):
    try:
        path = upstream_path("/a" + rest, prefix="/a", **keys)
    except BadRequest:
        return
    assert path.startswith("/base/")
    assert path.isascii()
    assert path.isprintable()
    assert " " not in path
    assert not {"..", ".", "%2e", "%2E"} & set(path.split("/"))


@pytest.mark.parametrize(("query", "expected"), [(b"", b"/p"), (b"a=%2F&&b", b"/p?a=%2F&&b"), (b"?", b"/p??")])
def test_query_is_unchanged(query, expected):
    assert build_target("/p", query) == expected


def test_preserves_bare_question_mark():
    assert build_target("/p", b"", is_bare=True) == b"/p?"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"gate_session=t", b""),
        (b"gate_session", b""),
        (b"a=1&gate_session=t", b"a=1"),
        (b"gate_session=t&a=%20+%2b&&b=", b"a=%20+%2b&&b="),
        (b"a=1&gate%5Fsession=t&b=2", b"a=1&b=2"),
        (b"%67ate_session=t&gate_session=u&c", b"c"),
        (b"a=gate_session", b"a=gate_session"),
        (b"xgate_session=t&gate_sessions=u", b"xgate_session=t&gate_sessions=u"),
        (b"a=%zz&&=&b=%67", b"a=%zz&&=&b=%67"),
        (b"", b""),
    ],
)
def test_strips_only_the_session_token(query, expected):
    assert strip_token(query) == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"to": "http://app.internal"}, b"app.internal"),
        ({"to": "http://app.internal:80"}, b"app.internal"),
        ({"to": "http://app.internal", "set_request_headers": {"X-A": "b"}}, b"app.internal"),
        ({"to": "http://app.internal:8080/x"}, b"app.internal:8080"),
        ({"to": "https://app.internal"}, b"app.internal"),
        ({"to": "http://localhost:9000"}, b"localhost:9000"),
        ({"to": "http://127.0.0.1:9000"}, b"incoming:8443"),
        ({"to": "http://[::1]:9000"}, b"incoming:8443"),
        ({"to": "http://app.internal", "preserve_host_header": True}, b"incoming:8443"),
        ({"to": "http://127.0.0.1", "set_request_headers": {"host": "named"}}, b"named"),
        ({"to": "http://app.internal", "preserve_host_header": True, "set_request_headers": {"Host": "named"}}, b"named"),
    ],
)
def test_the_host_sent_upstream(keys, expected):
    route = make_route(**keys)
    assert HostRewrite.build(route).apply(b"incoming:8443", upstream_hostname(route.to[0].url), "/", []) == expected


SEVERAL = ["http://a.internal:8000", "http://b.internal", "http://10.0.0.1"]


@pytest.mark.parametrize(("position", "expected"), [(0, b"a.internal:8000"), (1, b"b.internal"), (2, b"incoming")])
def test_each_upstream_gets_its_own_host(position, expected):
    route = make_route(to=SEVERAL)
    assert HostRewrite.build(route).apply(b"incoming", upstream_hostname(route.to[position].url), "/", []) == expected


FROM_HEADER = {"to": "http://u", "host_rewrite_header": "X-Upstream-Host"}
FROM_PATH = {"to": "http://u", "host_path_regex_rewrite_pattern": "^/([^/]+)/.*$", "host_path_regex_rewrite_substitution": r"\1.internal"}


def sent_host(keys, path="/", headers=()):
    return HostRewrite.build(make_route(**keys)).apply(b"incoming:8443", b"u", path, headers)


@pytest.mark.parametrize(
    ("keys", "path", "headers", "expected"),
    [
        ({"to": "http://u", "host_rewrite": "Named.Internal:81"}, "/", [], b"named.internal:81"),
        ({"to": "http://10.0.0.1", "host_rewrite": "named"}, "/", [], b"named"),
        (FROM_HEADER, "/", [(b"x-upstream-host", b"Other.Internal:81")], b"other.internal:81"),
        (FROM_HEADER, "/", [(b"x-upstream-host", b"[::1]:81")], b"[::1]:81"),
        (FROM_HEADER, "/", [(b"x-upstream-host", b"same"), (b"x-upstream-host", b"same")], b"same"),
        (FROM_HEADER, "/", [(b"x-upstream-host", b"")], b"incoming:8443"),
        (FROM_HEADER, "/", [], b"incoming:8443"),
        (FROM_HEADER, "/", [(b"x-other", b"other")], b"incoming:8443"),
        (FROM_PATH, "/orders/list", [], b"orders.internal"),
        (FROM_PATH, "/Orders:81/list", [], None),
    ],
)
def test_the_host_is_rewritten(keys, path, headers, expected):
    if expected is None:
        with pytest.raises(BadRequest):
            sent_host(keys, path, headers)
    else:
        assert sent_host(keys, path, headers) == expected


@pytest.mark.parametrize(("keys", "follows"), [({"to": "http://u"}, False), (FROM_HEADER, True), (FROM_PATH, True)])
def test_depends_on_request(keys, follows):
    assert HostRewrite.build(make_route(**keys)).depends_on_request is follows


@pytest.mark.parametrize("keys", [{}, {"prefix_rewrite": "/x"}, {"regex_rewrite_pattern": "a", "regex_rewrite_substitution": "b"}])
def test_is_noop(keys):
    assert PathRewrite.build(make_route(to="http://u", **keys)).is_noop is (not keys)


NO_HOSTS = [
    "a b",
    "a\r\nx: y",
    "a\tb",
    "a/b",
    "a@b",
    "a:b",
    "a:0",
    "a:99999",
    "a?b",
    "a#b",
    "[::1",
    "a,b",
    "..",
    "a%2eb",
    "\xe4",
    "a:80:80",
    " a",
    "x" * 300,
]


@pytest.mark.parametrize("value", NO_HOSTS)
def test_refuses_invalid_host_from_header(value):
    with pytest.raises(BadRequest):
        sent_host(FROM_HEADER, "/", [(b"x-upstream-host", value.encode("latin-1"))])


def test_refuses_two_different_hosts():
    with pytest.raises(BadRequest, match="more than one"):
        sent_host(FROM_HEADER, "/", [(b"x-upstream-host", b"a"), (b"x-upstream-host", b"b")])


@pytest.mark.parametrize("path", ["/", "/one", "/a@b/x", "/a%2Fb/x", "/%C3%A4/x", "/a,b/x", "/" + "x" * 300 + "/y"])
def test_refuses_invalid_host_from_path(path):
    with pytest.raises(BadRequest):
        sent_host(FROM_PATH, path)


def regex_rewrite(pattern, substitution, **keys):
    return {"to": "http://u/base", "regex_rewrite_pattern": pattern, "regex_rewrite_substitution": substitution, **keys}


@pytest.mark.parametrize(
    ("pattern", "substitution", "path", "expected"),
    [
        ("^/old/(.*)$", r"/new/\1", "/old/x/y", "/new/x/y"),
        ("^/old/(.*)$", r"/new/\1", "/other", "/other"),  # no match: unchanged, and without the path of `to`
        ("/(a)|/(b)", r"/\1-\2", "/a/b/c", "/a-/-b/c"),  # every match; a group without a match is empty
        ("o", "0", "/foo/boo", "/f00/b00"),
        ("^/x", "", "/x/y", "/y"),
        ("^//x", "y", "//x/z", "/y/z"),
        ("^/x/", "", "/x/y", "/y"),
        ("^.*$", "", "/x", "/"),
        ("^/x", "/", "/x//evil.com", "/evil.com"),
        ("%20", "_", "/a%20b", "/a_b"),
    ],
)
def test_rewrites_path_by_regex(pattern, substitution, path, expected):
    assert upstream_path(path, **regex_rewrite(pattern, substitution)) == expected


@pytest.mark.parametrize(
    ("pattern", "substitution", "path"),
    [
        ("^/a/(.*)$", r"/\1/../\1", "/a/x"),
        ("x", ".", "/a/xx/b"),
        ("x", "", "/%x2e%x2e/admin"),
        ("x", "", "/.x./admin"),
        ("x", "", "/a/%x0d%x0aHost:%20evil"),
        ("x", "", "/a/%x00"),
        ("^(/.*)$", r"\1%zz", "/a"),
        ("(.)", r"\1\1\1\1\1\1\1\1", "/" + "a" * 2000),
    ],
)
def test_refuses_unsafe_rewritten_path(pattern, substitution, path):
    with pytest.raises(BadRequest):
        PathRewrite(None, None, substitution_of(pattern, substitution)).apply(path)


@given(st.text(alphabet="/.;%2eE5Cc0dDaAx\\ \r\n?#", max_size=16))
def test_regex_rewrite_result_is_canonical(rest):
    rewrite = PathRewrite(None, None, substitution_of("x", ""))
    try:
        path = rewrite.apply("/" + rest)
    except BadRequest:
        return
    assert canonical_path(path.encode()) == path
    assert not {"..", "."} & set(path.split("/"))
    assert not path.startswith("//") or rest.startswith("/")
