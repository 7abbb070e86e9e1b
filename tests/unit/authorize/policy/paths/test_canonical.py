"""One path and one host a request, or none."""

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorize.policy.paths.canonical import (
    canonical_host,
    canonical_path,
    canonical_setting_path,
    canonical_setting_prefix,
    require_canonical,
)
from foundation.errors import BadRequest


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        pytest.param(b"/", "/", id="the root"),
        pytest.param(b"/a/b.html", "/a/b.html", id="nothing to do"),
        pytest.param(b"/%61dmin", "/admin", id="an escaped letter"),
        pytest.param(b"/%7euser/%2d%5f", "/~user/-_", id="escaped unreserved marks"),
        pytest.param(b"/a%2fb", "/a%2Fb", id="an escaped slash stays, in upper case"),
        pytest.param(b"/a%3bb%40", "/a%3Bb%40", id="escaped reserved characters stay"),
        pytest.param(b"/a|b", "/a|b", id="neither reserved nor unreserved stays"),
        pytest.param(b"/%c3%a4", "/%C3%A4", id="UTF-8"),
        pytest.param(b"/%ef%bc%8f", "/%EF%BC%8F", id="a fullwidth slash is a letter"),
        pytest.param(b"/%2561dmin", "/%2561dmin", id="nothing is decoded twice"),
        pytest.param(b"/a/./b", "/a/b", id="a dot segment"),
        pytest.param(b"/a/../b", "/b", id="a parent segment"),
        pytest.param(b"/a/%2e%2E/b", "/b", id="an escaped parent segment"),
        pytest.param(b"/a/.%2e/b", "/b", id="a half escaped one"),
        pytest.param(b"/../../b", "/b", id="never above the root"),
        pytest.param(b"/a/b/..", "/a/", id="a parent segment at the end"),
        pytest.param(b"/a/b/.", "/a/b/", id="a dot segment at the end"),
        pytest.param(b"/..", "/", id="only a parent segment"),
        pytest.param(b"//a///b", "//a///b", id="duplicate slashes stay"),
        pytest.param(b"/a//../b", "/a/b", id="a parent segment removes an empty one"),
        pytest.param(b"/.well-known/x", "/.well-known/x", id="a name that begins with a dot"),
        pytest.param(b"/.../a", "/.../a", id="three dots are a name"),
        pytest.param(b"/a;v=1..2", "/a;v=1..2", id="dots inside a parameter"),
        pytest.param(b"/wiki/What%3F.", "/wiki/What%3F.", id="a dot behind an encoded question mark"),
        pytest.param(b"/wiki/C%23..", "/wiki/C%23..", id="dots behind an encoded hash"),
        pytest.param(b"/wiki/C%2523.", "/wiki/C%2523.", id="a dot behind a hash that was encoded twice"),
        pytest.param(b"/a..%252fadmin", "/a..%252fadmin", id="an escaped percent sign is a percent sign"),
    ],
)
def test_a_path_has_one_canonical_form(raw: bytes, canonical: str) -> None:
    assert canonical_path(raw) == canonical


REFUSED = [
    b"",
    b"*",
    b"admin",
    b"app:443",
    b"http://h/",
    b"/a b",
    b"/a\tb",
    b"/a\r\nb",
    b"/\x00",
    b"/\x7f",
    b"/\xff",
    b"/\xc3\xa4",
    b"/a#b",
    b"/a?b",
    b"/a\\b",
    b"/%",
    b"/%4",
    b"/%4g",
    b"/%%41",
    b"/%u0041",
    b"/% 1",
    b"/%+1",
    b"/%00",
    b"/%0a",
    b"/%1F",
    b"/%7f",
    b"/%5c..%5c",
    b"/%5C",
    b"/%c0%ae",
    b"/%c0%af",
    b"/%e0%80%af",
    b"/%ff",
    b"/%ed%a0%80",
    b"/%c3",
    b"/..;/admin",
    b"/..;x=y/admin",
    b"/%2e%2e;/admin",
    b"/.;/admin",
    b"/a/..%2fadmin",
    b"/%2e%2e%2fadmin",
    b"/..%3b/admin",
    b"/a%2f..%2fb",
    b"/a%2F..",
    b"/.%2Fa",
    b"/a;/..;/b",
    b"/a%2f%2e%2e",
    b"/..%3Fx",
    b"/a/..%23",
    b"/.%3f",
    b"/tag/.%3Fx",
    b"/x%3F%2F..%2Fadmin",
    b"/x%253F%2F..",
    b"/x%23;..",
    b"/..%252fadmin",
    b"/%252e%252e/admin",
    b"/a/.%252525252e",
    b"/a%252f%252e%252e",
    b"/..%253bx/admin",
    b"/a%255c..%255cb",
]


@pytest.mark.parametrize("raw", REFUSED, ids=repr)
def test_a_path_with_two_readings_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest):
        canonical_path(raw)


PIECES = st.sampled_from(
    [
        b"/",
        b"//",
        b".",
        b"..",
        b"%2e",
        b"%2E",
        b"%2f",
        b"%2F",
        b"%252e",
        b";",
        b"%3b",
        b"a",
        b"%41",
        b"%c3%a9",
        b"%c0%ae",
        b"\\",
        b"%5c",
        b"|",
        b"@",
        b"%",
        b"#",
    ]
)


@given(st.lists(PIECES, max_size=12).map(lambda pieces: b"/" + b"".join(pieces)))
def test_the_canonical_form_is_its_own_canonical_form(raw: bytes) -> None:
    try:
        path = canonical_path(raw)
    except BadRequest:
        return
    assert canonical_path(path.encode()) == path


@given(st.lists(PIECES, max_size=12).map(lambda pieces: b"/" + b"".join(pieces)))
def test_no_canonical_path_climbs_however_often_it_is_decoded(raw: bytes) -> None:
    try:
        path = canonical_path(raw)
    except BadRequest:
        return
    for _ in range(3):
        path = unquote(path)
        assert not {".", ".."} & {re.split("[?#]", part)[0] for part in re.split(r"[/;\\]", path)}


def resolved(path: str) -> str:
    """RFC 3986 5.2.4 to the letter (and WHATWG URL, which also takes `%2e` for a dot)."""
    rest, output = re.sub(r"(?i)%2e", ".", path), ""
    while rest:
        if rest.startswith("/./") or rest == "/.":
            rest = "/" + rest[3:]
        elif rest.startswith("/../") or rest == "/..":
            rest, output = "/" + rest[4:], output.rpartition("/")[0]
        else:
            segment = re.match(r"/?[^/]*", rest)
            output, rest = output + segment[0], rest[segment.end() :]
    return output


@given(
    st.lists(PIECES.filter(lambda piece: piece not in (b"\\", b"%", b"#", b"%5c", b"%c0%ae")), max_size=10).map(
        lambda p: b"/" + b"".join(p)
    )
)
def test_dot_segments_are_resolved_as_in_the_standard(raw: bytes) -> None:
    try:
        path = canonical_path(raw)
    except BadRequest:
        return
    assert resolved(re.sub("(?i)%41", "A", raw.decode())).upper() == path.upper()


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("/a b", "/a%20b"),
        ("/a%20b", "/a%20b"),
        ("/ä", "/%C3%A4"),
        ("/%c3%a4", "/%C3%A4"),
        ("/100%", "/100%25"),
        ("/a?b#c", "/a%3Fb%23c"),
        ("/a|b", "/a|b"),
        ("/%61/../b", "/b"),
        ("/a%2fb", "/a%2Fb"),
        ("/x{y}", "/x{y}"),
    ],
)
def test_settings_are_written_decoded_or_encoded(text: str, canonical: str) -> None:
    assert canonical_setting_path(text) == canonical


@pytest.mark.parametrize("text", ["", "a", "/a\\b", "/a%5cb", "/a\nb", "/%00"])
def test_a_setting_that_no_request_could_match_is_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        canonical_setting_path(text)


@pytest.mark.parametrize(
    ("text", "canonical"), [("/.", "/."), ("/a/..", "/a/.."), ("/a/", "/a/"), ("/", "/"), ("/a/../b", "/b"), ("/adm", "/adm")]
)
def test_a_prefix_may_end_inside_a_segment(text: str, canonical: str) -> None:
    assert canonical_setting_prefix(text) == canonical


@pytest.mark.parametrize(
    ("raw", "host", "port"),
    [
        (b"app.example.com", "app.example.com", None),
        (b"APP.Example.COM", "app.example.com", None),
        (b"app.example.com.", "app.example.com", None),
        (b"app.example.com:443", "app.example.com", 443),
        (b"app.example.com.:8443", "app.example.com", 8443),
        (b"a_b.example.com", "a_b.example.com", None),
        (b"xn--bcher-kva.example", "xn--bcher-kva.example", None),
        (b"127.0.0.1:80", "127.0.0.1", 80),
        (b"[::1]:8443", "[::1]", 8443),
        (b"[0:0:0:0:0:0:0:1]", "[::1]", None),
        (b"[2001:DB8::0:1]", "[2001:db8::1]", None),
    ],
)
def test_a_host_has_one_canonical_form(raw: bytes, host: str, port: int | None) -> None:
    assert canonical_host(raw) == (host, port)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b".",
        b":443",
        b"a:",
        b"a:0",
        b"a:0443",
        b"a:443x",
        b"a:65536",
        b"a:99999",
        b"a:-1",
        b"a:+1",
        b"a:4 43",
        b"user@a",
        b"u:p@a",
        b"a,b",
        b"a, b",
        b" a",
        b"a ",
        b"a\t",
        b"a\n",
        b"a\x00",
        b"a\r\nb",
        b"a..b",
        b".a",
        b"a..",
        b"a/b",
        b"a?b",
        b"a#b",
        b"a\\b",
        b"a%2eb",
        b"*.a",
        b"b\xc3\xbccher",
        b"a\xe3\x80\x82b",
        b"a\xef\xbc\x8eb",
        b"[::1",
        b"::1",
        b"[::1]x",
        b"[::1%25eth0]",
        b"[1]",
        b"[]",
        b"[gg::1]",
        b"a" * 64,
        b"a." * 127 + b"a",
        b"a:443:443",
    ],
    ids=repr,
)
def test_a_host_that_is_not_one_name_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest):
        canonical_host(raw)


def test_canonical_path_differs_only_in_case_of_escapes():
    for raw in (b"/", b"/a%2fb", b"/a%2Fb", b"/a;b//c"):
        require_canonical(raw, canonical_path(raw))
    for raw in (b"/a/../b", b"/%61", b"/./a", b"/a/%2e%2e/b"):
        with pytest.raises(BadRequest, match="canonical form"):
            require_canonical(raw, canonical_path(raw))
    for raw in (b"/A%2Fb", rb"/a\u012fb", rb"/a\x2fb", b"/a%2", b"/a%zz", b"/a/b", b"/a\xc4\xafb"):
        with pytest.raises(BadRequest, match="canonical form"):
            require_canonical(raw, "/a%2Fb")


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"/%00/%zz", "encoded control"),
        (b"/%zz/%00", "two hexadecimal digits"),
        (b"/%ff/%zz", "two hexadecimal digits"),
        (b"/%ff/%5c", "encoded control"),
        (b"/..%2f/%ff", "not UTF-8"),
        (b"/..%2f/../a", "parent directory"),
    ],
)
def test_first_path_error_is_reported(raw: bytes, problem: str) -> None:
    with pytest.raises(BadRequest, match=problem):
        canonical_path(raw)
