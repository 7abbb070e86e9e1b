import pytest

from gateproject.crypto import cookies


def is_ours(name: bytes) -> bool:
    return cookies.is_ours(name, "_gate")


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
    ],
)
def test_our_cookies_go_and_all_others_survive_byte_for_byte(header: bytes, left: list[bytes]) -> None:
    assert cookies.without([header], is_ours) == left


@pytest.mark.parametrize(
    ("header", "left"),
    [
        (b"a=1; __Host-gate=x; b=2", [b"a=1; b=2"]),
        (b"__Host-gate_csrf=x; __host-GATE_signin_abc=y; __Host-gate_admin=z; __Host-__Host-gate_form_abc=q", []),
        (b"gate=1; gate_theme=2; __Host-gates=3; __Host-_gate=4", [b"gate=1; gate_theme=2; __Host-gates=3; __Host-_gate=4"]),
    ],
)
def test_our_cookies_are_ours_where_their_name_has_a_prefix_of_its_own(header: bytes, left: list[bytes]) -> None:
    assert cookies.without([header], lambda name: cookies.is_ours(name, "__Host-gate")) == left


def test_each_of_several_cookie_headers_is_cleaned() -> None:
    assert cookies.without([b"a=1; _gate=x", b"_gate=y", b"b=2"], is_ours) == [b"a=1", b"b=2"]


def test_parsing_keeps_order_and_duplicates() -> None:
    assert cookies.parse([b"a=1; a=2", b"b==; c"]) == [(b"a", b"1"), (b"a", b"2"), (b"b", b"="), (b"", b"c")]


def test_parsing_is_bounded() -> None:
    assert len(cookies.parse([b";".join(b"a=1" for _ in range(cookies.MAX_PAIRS + 5))])) == cookies.MAX_PAIRS


def test_a_cookie_is_guarded_by_its_attributes() -> None:
    text = cookies.set_cookie("_gate", "v", max_age=5, secure=True)
    assert text == "_gate=v; Path=/; Max-Age=5; SameSite=Lax; Secure; HttpOnly"
