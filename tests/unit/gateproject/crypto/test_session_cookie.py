from itertools import permutations
from pathlib import Path

import pytest

from gateproject.crypto import session_cookie
from gateproject.crypto.session_cookie import SessionCookies, SessionToken
from gateproject.crypto.sign_in_attempts import SignInAttempts
from gateproject.errors import SealError
from tests.support.options import make_options

NOW = 1_800_000_000.0
HOSTS = [f"app{number}.example.com" for number in range(8)] + ["app0.example.com:8443", "auth.example.com"]


@pytest.fixture
def cookies(tmp_path: Path) -> SessionCookies:
    return SessionCookies(make_options(tmp_path))


def test_a_cookie_opens_at_its_host(cookies: SessionCookies) -> None:
    value = cookies.seal("s1", "app.example.com", NOW, NOW + 60)
    assert cookies.open(value, "app.example.com", NOW) == SessionToken("s1", NOW, NOW + 60)


def test_a_cookie_of_one_host_is_refused_at_every_other(cookies: SessionCookies) -> None:
    for issued_for, shown_to in permutations(HOSTS, 2):
        value = cookies.seal("s1", issued_for, NOW, NOW + 60)
        with pytest.raises(SealError):
            cookies.open(value, shown_to, NOW)


def test_with_cookie_domain_hosts_below_it_share_and_others_do_not(tmp_path: Path) -> None:
    cookies = SessionCookies(make_options(tmp_path, cookie_domain="example.com"))
    value = cookies.seal("s1", "a.example.com", NOW, NOW + 60)
    assert cookies.open(value, "b.example.com:8443", NOW).session_id == "s1"
    assert "Domain=example.com" in cookies.set_cookie(value, "a.example.com", NOW + 60, NOW)
    for foreign in ("example.com.evil.org", "evilexample.com", "host:example.com"):
        assert not cookies.covers(foreign)
        assert "Domain" not in cookies.set_cookie(value, foreign, NOW + 60, NOW)
        with pytest.raises(SealError):
            cookies.open(value, foreign, NOW)


def test_an_expired_cookie_is_refused(cookies: SessionCookies) -> None:
    value = cookies.seal("s1", "a", NOW, NOW + 60)
    with pytest.raises(SealError):
        cookies.open(value, "a", NOW + 60)


def test_a_cookie_that_was_opened_is_still_refused_at_every_other_host(cookies: SessionCookies) -> None:
    for issued_for, shown_to in permutations(HOSTS, 2):
        value = cookies.seal("s1", issued_for, NOW, NOW + 60)
        assert cookies.open(value, issued_for, NOW) == cookies.open(value, issued_for, NOW + 1)
        with pytest.raises(SealError):
            cookies.open(value, shown_to, NOW)


def test_a_cookie_that_was_opened_still_expires(cookies: SessionCookies) -> None:
    value = cookies.seal("s1", "a", NOW, NOW + 60)
    assert cookies.open(value, "a", NOW + 59).session_id == "s1"
    for now in (NOW + 60, NOW + 61):
        with pytest.raises(SealError):
            cookies.open(value, "a", now)


def test_a_cookie_that_was_opened_opens_by_its_exact_value_only(cookies: SessionCookies) -> None:
    value = cookies.seal("s1", "a", NOW, NOW + 60)
    cookies.open(value, "a", NOW)
    for other in (value + "A", value[:-1], value.swapcase(), value + "="):
        with pytest.raises(SealError):
            cookies.open(other, "a", NOW)


def test_only_so_many_opened_cookies_are_remembered_and_nothing_that_did_not_open(
    cookies: SessionCookies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_cookie, "MOST_OPENED", 3)
    values = [cookies.seal(f"s{number}", "a", NOW, NOW + 60) for number in range(5)]
    for value in values:
        cookies.open(value, "a", NOW)
        cookies.open(values[0], "a", NOW)  # the one that is used stays
        with pytest.raises(SealError):
            cookies.open("x" * len(value), "a", NOW)
    assert [value for value, _ in cookies._opened] == [values[3], values[4], values[0]]


def test_no_number_of_planted_cookies_hides_the_real_one(cookies: SessionCookies) -> None:
    real = cookies.seal("s1", "a", NOW, NOW + 60)
    planted = [f"_gate={'x' * 80}{number}" for number in range(200)]
    read = cookies.read([b"_gate=short; other=1", "; ".join([*planted, f"_gate={real}"]).encode()])
    assert read[-1] == real
    assert len(read) == 201


def test_a_cookie_is_cleared_by_the_same_name_path_and_domain(tmp_path: Path) -> None:
    cookies = SessionCookies(make_options(tmp_path, cookie_domain="example.com"))
    assert cookies.clear_cookie("a.example.com") == "_gate=; Path=/; Max-Age=0; SameSite=Lax; Domain=example.com; Secure; HttpOnly"


def test_a_value_of_another_purpose_is_no_session(cookies: SessionCookies, tmp_path: Path) -> None:
    attempts = SignInAttempts(make_options(tmp_path), "route")
    _, (set_cookie, *_) = attempts.begin({"sid": "s1", "iat": NOW, "exp": NOW + 9}, "a", [], NOW)
    with pytest.raises(SealError):
        cookies.open(set_cookie.split("=", 1)[1].split(";")[0], "a", NOW)
