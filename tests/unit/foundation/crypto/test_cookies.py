import pytest

from foundation.crypto import cookies


def is_gate_cookie(name: bytes) -> bool:
    return cookies.is_gate_cookie(name, "_gate")


@pytest.mark.parametrize(
    ("header", "left"),
    [
        (b"_gate=x", []),
        (b"a=1; _gate=x; b=2", [b"a=1; b=2"]),
        (b"_gate=x; a=1", [b"a=1"]),
        (b"a=1; _gate=x", [b"a=1"]),
        (b"a=1; _gate_1=x; _gate_99999=y; _gate_csrf=z; _gate_signin_abc=q; _GATE=x; b=2", [b"a=1; b=2"]),
        (b"my_gate=1; gate=2; _gates=3; _gat=4", [b"my_gate=1; gate=2; _gates=3; _gat=4"]),
        (b'odd; =; a="_gate=x; b', [b'odd; =; a="_gate=x; b']),
        (b"a=1;_gate=x;b=2 ;  c = 3", [b"a=1;b=2 ;  c = 3"]),
        (b"_gate", []),
        (b"__Host-_gate_form_abc=x; __host-_gate=y; __Host-theirs=z", [b"__Host-theirs=z"]),
        (b" \t_gate =x; a=1", [b"a=1"]),
        (b"a=1,_gate=x; b=2", [b"a=1; b=2"]),
        (b"a=1, __Host-_gate=x, c=3; b=2", [b"a=1; b=2"]),
        (b"a=1,2,gate=3; b=,", [b"a=1,2,gate=3; b=,"]),
        (b"_gate=x,a=1; b=2", [b"b=2"]),
        (b" a=1;b=2 ", [b" a=1;b=2 "]),
    ],
)
def test_gate_cookies_are_removed_and_others_survive_byte_for_byte(header: bytes, left: list[bytes]) -> None:
    assert cookies.strip_cookies([header], is_gate_cookie) == left


@pytest.mark.parametrize(
    ("header", "left"),
    [
        (b"a=1; __Host-gate=x; b=2", [b"a=1; b=2"]),
        (b"__Host-gate_csrf=x; __host-GATE_signin_abc=y; __Host-gate_admin=z; __Host-__Host-gate_form_abc=q", []),
        (b"gate=1; gate_theme=2; __Host-gates=3; __Host-_gate=4", [b"gate=1; gate_theme=2; __Host-gates=3; __Host-_gate=4"]),
    ],
)
def test_prefixed_cookies_are_recognized_as_gate_s(header: bytes, left: list[bytes]) -> None:
    assert cookies.strip_cookies([header], lambda name: cookies.is_gate_cookie(name, "__Host-gate")) == left


def test_each_of_several_cookie_headers_is_cleaned() -> None:
    assert cookies.strip_cookies([b"a=1; _gate=x", b"_gate=y", b"b=2"], is_gate_cookie) == [b"a=1", b"b=2"]


def test_parsing_keeps_order_and_duplicates() -> None:
    assert cookies.parse([b"a=1; a=2", b"b==; c"]) == [(b"a", b"1"), (b"a", b"2"), (b"b", b"="), (b"", b"c")]


def test_parsing_is_bounded() -> None:
    assert len(cookies.parse([b";".join(b"a=1" for _ in range(cookies.MAX_PAIRS + 5))])) == cookies.MAX_PAIRS


def test_a_cookie_is_guarded_by_its_attributes() -> None:
    text = cookies.set_cookie("_gate", "v", max_age=5, secure=True)
    assert text == "_gate=v; Path=/; Max-Age=5; SameSite=Lax; Secure; HttpOnly"
    assert cookies.set_cookie("n", "v", max_age=5, secure=False, http_only=False) == "n=v; Path=/; Max-Age=5; SameSite=Lax"


def test_a_host_cookie_has_its_prefix_once_and_where_browsers_take_it() -> None:
    names = [
        cookies.host_prefixed_name(name, secure=secure) for name in ("_gate", "__Host-gate", "__host-gate") for secure in (True, False)
    ]
    assert names == ["__Host-_gate", "_gate", "__Host-gate", "__Host-gate", "__host-gate", "__host-gate"]
    assert all(cookies.is_gate_cookie(name.encode(), "_gate") for name in names[:2])


@pytest.mark.parametrize(
    ("host_port", "domains"),
    [
        ("a.b.example:8443", ["", "b.example", "a.b.example"]),
        ("localhost:8443", [""]),
        ("127.0.0.1:8443", [""]),
        ("[::1]:8443", [""]),
    ],
)
def test_cookies_planted_by_others_are_cleared_where_possible(host_port: str, domains: list[str]) -> None:
    cleared = cookies.expire_all_paths("n", host_port, "/a//b;x/c d", secure=True)
    places = [(part(each, "Domain="), part(each, "Path=")) for each in cleared]
    assert places == [(domain, path) for path in ("/", "/a", "/a/") for domain in domains]
    assert all("n=; " in each and "Max-Age=0" in each and "Secure" in each for each in cleared)


def test_response_head_stays_small_for_any_path() -> None:
    cleared = cookies.expire_all_paths("n", "a.b.c.d.e.f.example", "/x" * 3000, secure=True)
    assert sum(map(len, cleared)) < 2048


def part(set_cookie: str, name: str) -> str:
    return next((each.removeprefix(name) for each in set_cookie.split("; ") if each.startswith(name)), "")
