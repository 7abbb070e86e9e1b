import time
from pathlib import Path

import pytest

from proxy.sign_in.loops import MAX_SIGN_INS, WINDOW, SignInLoops
from tests.support.asgi import NAVIGATION
from tests.support.options import make_options
from tests.support.proxied import proxied

NOW = 1_800_000_000.0
HOST = "app.example.com"


@pytest.fixture
def loops(tmp_path: Path) -> SignInLoops:
    return SignInLoops(make_options(tmp_path))


def after(loops: SignInLoops, times: int, *, host: str = HOST, start: float = NOW) -> list[bytes]:
    """Return the Cookie header of a browser after `times` completed sign-ins."""
    header: list[bytes] = []
    for number in range(times):
        header = [loops.completion_cookie(header, host, start + number).split(";")[0].encode()]
    return header


def test_a_few_sign_ins_are_no_loop_and_many_are(loops: SignInLoops) -> None:
    assert not loops.is_looping([], HOST, NOW)
    assert not loops.is_looping(after(loops, MAX_SIGN_INS - 1), HOST, NOW + 3)
    assert loops.is_looping(after(loops, MAX_SIGN_INS), HOST, NOW + 3)


def test_the_count_ends_with_its_time_and_its_host(loops: SignInLoops) -> None:
    assert not loops.is_looping(after(loops, MAX_SIGN_INS), HOST, NOW + WINDOW + MAX_SIGN_INS)
    assert not loops.is_looping(after(loops, MAX_SIGN_INS, host="other.example.com"), HOST, NOW + 3)


def test_a_forged_count_counts_nothing(loops: SignInLoops) -> None:
    assert not loops.is_looping([b"__Host-_gate_signin_count=99; __Host-_gate_signin_count=\xff"], HOST, NOW)


async def test_a_browser_in_a_loop_reads_why_and_can_try_again(tmp_path: Path) -> None:
    async with proxied(tmp_path, {"allow_any_authenticated_user": True}) as gate:
        (cookie,) = after(SignInLoops(gate.options), MAX_SIGN_INS, start=time.time())
        page = await gate.send(f"https://{HOST}/page?q=1", headers={**NAVIGATION, "cookie": cookie.decode()})
        assert page.status == 400
        assert b"block or delete cookies" in page.body
        assert b"https://app.example.com/page?q=1" in page.body
        assert "Max-Age=0" in page.header("set-cookie")
        again = await gate.send(f"https://{HOST}/page?q=1", headers=NAVIGATION)
    assert again.status == 302
