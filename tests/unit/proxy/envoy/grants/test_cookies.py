"""Which Cookie headers are plain, and that what remains of them is what gate would have sent."""

from functools import partial
from random import Random

import pytest

from foundation.crypto import cookies
from proxy.envoy.grants.cookies import LONGEST, CookieNames, PlainCookies, split

NAMES = CookieNames(b"_gate", b"__Host-_gate")


@pytest.mark.parametrize(
    ("header", "rest"),
    [
        (b"_gate=A; __Host-_gate=B", None),
        (b"__Host-_gate=B; _gate=A", None),
        (b"a=1; _gate=A; b=2; __Host-_gate=B; c", b"a=1; b=2; c"),
        (b"=x; _gate=A; __Host-_gate=B", b"=x"),
        (b"_gate=A; __Host-_gate=B; __Host-_gate_signin_count=x; _GATE_y", None),
    ],
)
def test_a_plain_header_is_split(header: bytes, rest: bytes | None) -> None:
    assert split(header, NAMES) == PlainCookies(b"A|B", rest)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"_gate=A",
        b"__Host-_gate=B",
        b"_gate=A; _gate=A; __Host-_gate=B",
        b"_gate=A; __Host-_gate=B; __Host-_gate=B",
        b"_gate=A; __Host-_gate=B; _GATE=A",
        b"_gate=A; __Host-_gate=B; my_gate=x",
        b"_gate=A; __Host-_gate=B; __host-_gate=x",
        b"_gate=A; __Host-_gate=B; _gate",
        b"_gate=A;__Host-_gate=B",
        b"_gate=A;  __Host-_gate=B",
        b"_gate=A ; __Host-_gate=B",
        b"_gate=A; __Host-_gate=B;",
        b"_gate=A; __Host-_gate=B; ",
        b" _gate=A; __Host-_gate=B",
        b'_gate="A"; __Host-_gate=B',
        b"_gate=A=; __Host-_gate=B",
        b"_gate=A|C; __Host-_gate=B",
        b"_gate=; __Host-_gate=B",
        b"_gate=A; __Host-_gate=B; \ta=1",
        b"_gate=A,_gate=B; __Host-_gate=B",
        b"_gate=A; __Host-_gate=B; a=" + b"x" * LONGEST,
    ],
)
def test_any_other_header_is_for_the_judge(header: bytes) -> None:
    assert split(header, NAMES) is None


def test_without_a_companion_there_is_none() -> None:
    assert split(b"a=1; __Host-_gate=A", CookieNames(b"__Host-_gate", b"")) == PlainCookies(b"A|", b"a=1")
    assert split(b"a=1; _gate=A", CookieNames(b"_gate", b"")) == PlainCookies(b"A|", b"a=1")


@pytest.mark.parametrize("seed", range(200))
def test_what_remains_is_what_gate_sends(seed: int) -> None:
    chosen = Random(seed)
    pieces = [
        b"_gate=A",
        b"__Host-_gate=B",
        b"a=1",
        b"b",
        b"=c",
        b"d=e=f",
        b"g_ate=1",
        b"_gate_x=1",
        b"__Host-_gate_y=_gate",
        b"_gatex=1",
        b" h=1",
        b"i=1 ",
        b"",
    ]
    header = b"; ".join(chosen.sample(pieces, chosen.randint(2, 6)))
    if (found := split(header, NAMES)) is not None:
        left = cookies.without([header], partial(cookies.is_ours, cookie_name="_gate"))
        assert left == ([] if found.rest is None else [found.rest])
