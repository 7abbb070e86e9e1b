"""Each known interpretation of a path is among those that gate authorizes, and an ordinary path has only one."""

import re
import string
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorize.policy.paths.canonical import canonical_path
from authorize.policy.paths.interpretations import (
    MAX_INTERPRETATIONS,
    configured_forms,
    decoded_regex,
    forms_by_interpretation,
    interpretations,
    is_unambiguous,
)
from foundation.errors import BadRequest, PathTooAmbiguous
from tests.support.path_parsers import READERS, Reader, served


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param("/a/b.html", {"/a/b.html"}, id="nothing to read differently"),
        pytest.param("/%C3%A4%20b", {"/%C3%A4%20b"}, id="UTF-8 and a space stay encoded"),
        pytest.param("/%40a%2Bb", {"/@a+b"}, id="escapes of what ends nothing"),
        pytest.param("/a%2Fb", {"/a%2Fb", "/a/b"}, id="an encoded slash"),
        pytest.param("//a", {"//a", "/a", "/"}, id="two slashes, or a host"),
        pytest.param("///x/a", {"///x/a", "/x/a", "/a"}, id="three slashes"),
        pytest.param("///a//b", {"///a//b", "/a/b", "/a//b", "//b", "/b", "/"}, id="no host, or a host behind three slashes"),
        pytest.param(
            "//x%2Fy/a%2F", {"//x%2Fy/a%2F", "/x%2Fy/a%2F", "/a%2F", "//x/y/a/", "/x/y/a/", "/y/a/", "/a/"}, id="a host, then decoded"
        ),
        pytest.param("/a//b", {"/a//b", "/a/b"}, id="slashes further on"),
        pytest.param("/a;x=1/b", {"/a;x=1/b", "/a/b", "/a"}, id="parameters"),
        pytest.param("/a;x/b;y", {"/a;x/b;y", "/a;x/b", "/a/b", "/a"}, id="parameters of two segments"),
        pytest.param("/;x/a", {"/;x/a", "//a", "/a", "/"}, id="parameters of nothing"),
        pytest.param("/a%3Bx", {"/a%3Bx", "/a;x", "/a"}, id="encoded parameters"),
        pytest.param("/users;%2Fx", {"/users;%2Fx", "/users", "/users;/x", "/users/x"}, id="a slash inside a parameter"),
        pytest.param("/a%3Fb", {"/a%3Fb", "/a"}, id="an encoded question mark"),
        pytest.param("/a%23b", {"/a%23b", "/a"}, id="an encoded hash"),
        pytest.param("/%252Fa", {"/%252Fa", "//a", "/a", "/"}, id="a slash encoded twice"),
        pytest.param("/%2561", {"/%2561", "/a"}, id="a letter encoded twice"),
        pytest.param("/%25252561", {"/%25252561", "/%252561", "/a"}, id="a letter encoded four times"),
        pytest.param("/a%255Cb", {"/a%255Cb", "/a%5Cb", "/a/b"}, id="a backslash encoded twice"),
        pytest.param("/100%25", {"/100%25"}, id="a percent sign"),
        pytest.param("/(S(x))/a", {"/(S(x))/a", "/a"}, id="a session in the path"),
        pytest.param("/(A(x)F(..))/a", {"/(A(x)F(..))/a", "/a"}, id="a name and a sign-in in the path"),
        pytest.param("/a/%28s(x)%29", {"/a/(s(x))", "/a"}, id="an encoded session at the end"),
        pytest.param("/a//(S(x))", {"/a//(S(x))", "/a/(S(x))", "/a/", "/a"}, id="a session behind two slashes"),
        pytest.param("/(S(x))", {"/(S(x))", "/"}, id="nothing but a session"),
        pytest.param("/(S(x))b/(x)/f(S(x))/(S)", {"/(S(x))b/(x)/f(S(x))/(S)"}, id="names that look like a session"),
        pytest.param("/a%253Fb", {"/a%253Fb", "/a%3Fb", "/a"}, id="a question mark encoded twice"),
    ],
)
def test_path_interpretations_of_servers(path: str, found: set[str]) -> None:
    assert set(interpretations(path)) == found
    assert interpretations(path)[0] in found
    assert is_unambiguous(path) is (interpretations(path) == (path,)) or "%25" in path


# Characters that delimit nothing, in file names: raw, or as clients encode them.
ORDINARY = string.ascii_letters + string.digits + "-._~!$&'()*+,=:@ äöß€漢字"


@given(st.text(ORDINARY, min_size=1, max_size=20).filter(lambda name: name.strip(".") != ""), st.sampled_from(["", "@:!$&'()*+,="]))
def test_an_ordinary_name_has_one_reading(name: str, safe: str) -> None:
    path = canonical_path(b"/files/" + quote(name, safe=safe).encode())
    assert len(interpretations(path)) == 1


PIECES = (
    *("/", "//", "a", "b", "admin", "x.css", ".", ";", ";v=1", ";/", "%2F", "%2f", "%3B", "%3b", "%3F", "%23", "%25", "%252F", "%253B"),
    *("%255C", "%2525", "%252561", "%40", "@", "%20", "%C3%A4", "+", "%2B", "%7C", "|", "%22", "*", "~", ":", "%253F", "%26", "%5B"),
    *("/(S(x))/", "/(A(x)F(y))", "(S(x))", "%28S(x%29)"),
)
PATHS = st.lists(st.sampled_from(PIECES), max_size=9).map(lambda pieces: "/" + "".join(pieces))


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@given(PATHS)
def test_every_reader_serves_one_of_the_readings(reader: Reader, written: str) -> None:
    try:
        path = canonical_path(written.encode())
        taken_for = interpretations(path)
    except BadRequest:
        return
    found = served(reader, path)
    # Text that is not UTF-8 after a second decoding is in no model.
    assert found is None or "%EF%BF%BD" in found or configured_forms(found)[0] in taken_for


@given(PATHS)
def test_no_reading_climbs(written: str) -> None:
    try:
        taken_for = interpretations(canonical_path(written.encode()))
    except BadRequest:
        return
    for reading in taken_for:
        assert reading.startswith("/")
        assert not {".", ".."} & set(reading.split("/"))


def test_long_path_is_interpreted_and_not_cached() -> None:
    path = "/a" * 4000 + ";%2Fx"
    assert set(interpretations(path)) == {path, "/a" * 4000, "/a" * 4000 + ";/x", "/a" * 4000 + "/x"}


MARKS = ("%2F", "%3B", "%3F", "%23", "%25", ";", "a//")


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize(("count", "length"), [(32, 512), (16, 1024), (2, 8192)])
def test_a_path_may_hold_so_many_marks_and_a_longer_one_fewer(mark: str, count: int, length: int) -> None:
    path = ("/" + mark * count).ljust(length, "a")
    assert interpretations(path)
    assert forms_by_interpretation(path)
    for more in (path + "a", ("/" + mark * (count + 1)).ljust(length, "a"), "/" + mark * 33):
        for made in (interpretations, forms_by_interpretation):
            with pytest.raises(PathTooAmbiguous, match="too many"):
                made(more)


@pytest.mark.parametrize(
    "path",
    [
        "/a;v=1/b//c;v=2",
        "/group%2Fname;v=1/raw",
        "/proxy/https%3A%2F%2Fexample.com%2Fa%3Fb%3Dc%2520d%23part",
        "/sign-in/https%253A%252F%252Fexample.com%252Fa%253Fb%253Dc%2526d%253D%25252F",
        "/archive/2020/https://example.com/a%2Fb%3Fq",
        "/image/w=100;h=200/https%3A%2F%2Fexample.com%2Fa.png",
        "/queues/%2F/my%3Bqueue",
        "/what%3F%2Fwho%3B%23",
    ],
)
def test_common_application_paths_have_few_interpretations(path: str) -> None:
    assert 1 < len(interpretations(path)) <= MAX_INTERPRETATIONS
    assert forms_by_interpretation(path)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/a;b//c%2Fd;e", id="cut, decoded and merged"),
        pytest.param("/a;b/c%253Bd%252525252Fe;f%3Fg", id="decoded until nothing changes"),
        pytest.param("//a;b%3B%23c", id="of a host"),
        pytest.param("//(S(x))/a;b//c", id="of a session"),
        pytest.param("//x;a%2Fb%25252F%3F%23%3B%40" * 4, id="all of it"),
    ],
)
def test_a_path_that_is_read_in_more_ways_is_refused(path: str) -> None:
    for made in (interpretations, forms_by_interpretation):
        with pytest.raises(PathTooAmbiguous, match="too many"):
            made(path)


@given(PATHS)
def test_interpretations_are_limited(written: str) -> None:
    try:
        assert len(interpretations(canonical_path(written.encode()))) <= MAX_INTERPRETATIONS
    except BadRequest:
        return


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("/a", ("/a",)),
        ("/a b".replace(" ", "%20"), ("/a%20b",)),
        ("/%40a", ("/@a",)),
        ("/a%2Fb", ("/a%2Fb", "/a/b")),
        ("/a%2Fb%3Bc", ("/a%2Fb%3Bc", "/a%2Fb;c", "/a/b;c")),
    ],
)
def test_configured_names_are_found_in_interpretations(text: str, forms: tuple[str, ...]) -> None:
    assert configured_forms(text) == forms


@pytest.mark.parametrize(
    ("expression", "form"),
    [
        ("/a/[^/]+", "/a/[^/]+"),
        (r"/p/[^/]+%2F[^/]+", r"/p/[^/]+/[^/]+"),
        (r"/%40a%2Bb", r"/@a\+b"),
        ("/[^%2F]*", "/[^%2F]*"),
        ("/a%2F*", "/a%2F*"),
        ("/(?:a%2Fb)*", "/(?:a/b)*"),
        (r"/\%2Fa", r"/\%2Fa"),
        ("/100%", "/100%"),
        ("/a%20b", "/a%20b"),
    ],
)
def test_expression_with_escapes_is_parsed_with_their_characters(expression: str, form: str) -> None:
    assert decoded_regex(expression) == form


def test_reserved_characters_are_encoded_in_each_interpretation() -> None:
    for code in range(256):
        for reading in interpretations(f"/a%25{code:02X}b"):
            assert reading.isascii()
            assert not re.search(r"[\x00-\x20\x7f?#\\]", reading)
