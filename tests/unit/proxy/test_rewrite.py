import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateproject.config.route import Route
from gateproject.errors import BadRequest
from proxy.rewrite import HostRewrite, PathRewrite, target, without_token


def make_route(**keys):
    return Route.model_validate({"from": "https://app.example.com", **keys})


def upstream_path(request_path, /, **keys):
    return PathRewrite.build(make_route(**keys)).apply(request_path)


# (what the route says, the request's path, the upstream's path): the table of service.md "to" and behaviour.md 5.4
JOINS = [
    ({"to": "http://u"}, "/foo", "/foo"),
    ({"to": "http://u"}, "//foo", "//foo"),
    ({"to": "http://u/"}, "/foo", "/foo"),
    ({"to": "http://u/"}, "//foo", "//foo"),
    ({"to": "http://u/base"}, "/foo", "/basefoo"),
    ({"to": "http://u/base"}, "/", "/base"),
    ({"to": "http://u/base"}, "//foo", "/base/foo"),
    ({"to": "http://u/base/"}, "/foo", "/base/foo"),
    ({"to": "http://u/base/"}, "/", "/base/"),
    ({"to": "http://u", "prefix": "/admin"}, "/admin/foo", "/admin/foo"),
    ({"to": "http://u/x", "prefix": "/admin"}, "/admin/foo", "/x/foo"),
    ({"to": "http://u/x", "prefix": "/admin"}, "/admin", "/x"),
    ({"to": "http://u/x/", "prefix": "/admin/"}, "/admin/foo", "/x/foo"),
    ({"to": "http://u/", "prefix": "/admin"}, "/admin/foo", "/foo"),
    ({"to": "http://u", "prefix": "/admin", "prefix_rewrite": "/y"}, "/admin/foo", "/y/foo"),
    ({"to": "http://u/x", "prefix": "/admin", "prefix_rewrite": "/y"}, "/admin/foo", "/y/foo"),
    ({"to": "http://u", "prefix": "/admin", "prefix_rewrite": "/"}, "/admin/foo", "/foo"),
    ({"to": "http://u", "prefix": "/admin", "prefix_rewrite": "/"}, "/admin", "/"),
    ({"to": "http://u", "prefix_rewrite": "/y/"}, "/foo", "/y/foo"),
    ({"to": "http://u/x", "path": "/one"}, "/one", "/x"),
    ({"to": "http://u", "path": "/one", "prefix_rewrite": "/two"}, "/one", "/two"),
    ({"to": "http://u", "path": "/one"}, "/one", "/one"),
    ({"to": "http://u/x", "regex": "/a/.*"}, "/a/b/c", "/x"),
    ({"to": "http://u", "regex": "/a/.*", "prefix_rewrite": "/z"}, "/a/b/c", "/z"),
    ({"to": "http://u", "prefix": "/a"}, "/a/%2Fb", "/a/%2Fb"),
]


@pytest.mark.parametrize(("keys", "path", "expected"), JOINS)
def test_how_to_joins_the_path(keys, path, expected):
    assert upstream_path(path, **keys) == expected


def test_the_prefix_is_cut_in_the_form_in_which_it_matched():
    rewrite = PathRewrite.build(make_route(to="http://u/x", prefix="/%61dmin"), "/admin")
    assert rewrite.apply("/admin/foo") == "/x/foo"


@pytest.mark.parametrize("path", ["/a//evil.com", "/a///evil.com", "/a//"])
def test_a_rewritten_path_never_begins_like_a_host(path):
    assert not upstream_path(path, to="http://u", prefix="/a", prefix_rewrite="/").startswith("//")


@pytest.mark.parametrize(
    "rest",
    ["../x", "..", ".", "./x", "/..;/x", "..;v=1/x", "..%3B/x", "..%3bv=1/x", "/%2e%2e/x", "..%2Fx", "/..%2fx", "/b%2f..", "/x%5c..%5Cy"],
)
def test_rewriting_never_leaves_the_base_path(rest):
    with pytest.raises(BadRequest):
        upstream_path("/a" + rest, to="http://u/base/", prefix="/a")


@pytest.mark.parametrize("path", ["/a/...", "/a/x..", "/a/..x", "/a/.hidden", "/a/x;..", "/a/%2Fx"])
def test_dots_inside_a_name_are_no_way_out(path):
    assert upstream_path(path, to="http://u/base/", prefix="/a/") == "/base/" + path.removeprefix("/a/")


@given(st.text(alphabet="/.;%2eEfFa\\ \r\n?#", max_size=20))
def test_a_forwarded_path_stays_below_its_base(rest):
    try:
        path = upstream_path("/a" + rest, to="http://u/base/", prefix="/a")
    except BadRequest:
        return
    assert path.startswith("/base/")
    assert path.isascii()
    assert path.isprintable()
    assert " " not in path
    assert not {"..", ".", "%2e", "%2E"} & set(path.split("/"))


@pytest.mark.parametrize(("query", "expected"), [(b"", b"/p"), (b"a=%2F&&b", b"/p?a=%2F&&b"), (b"?", b"/p??")])
def test_the_query_follows_byte_for_byte(query, expected):
    assert target("/p", query) == expected


def test_a_bare_question_mark_is_kept():
    assert target("/p", b"", is_bare=True) == b"/p?"


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
def test_our_token_leaves_the_query_and_nothing_else_changes(query, expected):
    assert without_token(query) == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"to": "http://app.internal"}, b"app.internal"),
        ({"to": "http://app.internal:80"}, b"app.internal"),
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
    assert HostRewrite.build(make_route(**keys)).apply(b"incoming:8443") == expected
