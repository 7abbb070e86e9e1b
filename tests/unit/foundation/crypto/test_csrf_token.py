from pathlib import Path

import pytest

from foundation.crypto.csrf_token import LIFETIME, CsrfTokens
from tests.support.options import make_options

NOW = 1_800_000_000.0


@pytest.fixture
def tokens(tmp_path: Path) -> CsrfTokens:
    return CsrfTokens(make_options(tmp_path))


def cookie_of(set_cookie: str | None) -> list[bytes]:
    assert set_cookie is not None
    return [set_cookie.split(";")[0].encode()]


def test_a_token_fits_the_browser_it_was_made_for(tokens: CsrfTokens) -> None:
    token, set_cookie = tokens.token_for([], NOW, bound_to="s1")
    assert tokens.check(token, cookie_of(set_cookie), NOW, bound_to="s1")


def test_without_the_cookie_or_with_anothers_it_is_worth_nothing(tokens: CsrfTokens) -> None:
    token, _ = tokens.token_for([], NOW)
    _, others = tokens.token_for([], NOW)
    assert not tokens.check(token, [], NOW)
    assert not tokens.check(token, cookie_of(others), NOW)


def test_a_token_of_another_session_is_refused(tokens: CsrfTokens) -> None:
    """A sibling domain can plant its own valid pair of cookie and token; it is bound to the planter's session."""
    token, set_cookie = tokens.token_for([], NOW, bound_to="attacker")
    assert not tokens.check(token, cookie_of(set_cookie), NOW, bound_to="victim")


def test_cookie_is_reused_and_each_page_gets_another_mask(tokens: CsrfTokens) -> None:
    first, set_cookie = tokens.token_for([], NOW)
    second, again = tokens.token_for(cookie_of(set_cookie), NOW)
    assert again is None
    assert first != second
    assert tokens.check(first, cookie_of(set_cookie), NOW)
    assert tokens.check(second, cookie_of(set_cookie), NOW)


def test_it_ends_after_twelve_hours(tokens: CsrfTokens) -> None:
    token, set_cookie = tokens.token_for([], NOW)
    assert not tokens.check(token, cookie_of(set_cookie), NOW + LIFETIME)


@pytest.mark.parametrize("junk", ["", "x", "A" * 86, "A" * 85, "é", "A" * 10_000])
def test_junk_is_refused(tokens: CsrfTokens, junk: str) -> None:
    _, set_cookie = tokens.token_for([], NOW)
    assert not tokens.check(junk, cookie_of(set_cookie), NOW)


@pytest.mark.parametrize(("secure", "counts"), [(True, ["__Host-_gate_csrf"]), (False, ["_gate_csrf"])])
def test_the_cookie_counts_under_the_name_that_only_its_own_host_can_set(tmp_path: Path, secure: bool, counts: list[str]) -> None:
    tokens = CsrfTokens(make_options(tmp_path, cookie_secure=secure))
    token, set_cookie = tokens.token_for([], NOW)
    value = cookie_of(set_cookie)[0].partition(b"=")[2]
    names = ("_gate_csrf", "__Host-_gate_csrf", "__host-_gate_csrf", "__Secure-_gate_csrf")
    assert [name for name in names if tokens.check(token, [name.encode() + b"=" + value], NOW)] == counts
    assert tokens.clear().startswith(f"{counts[0]}=; Path=/; Max-Age=0")
