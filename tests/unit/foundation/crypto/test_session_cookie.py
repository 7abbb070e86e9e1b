import base64
from itertools import permutations
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from foundation.crypto import session_cookie
from foundation.crypto.session_cookie import SessionCookies, SessionToken
from foundation.crypto.sign_in_attempts import SignInAttempts
from foundation.errors import SealError
from tests.support.cookies import cookie_header
from tests.support.options import make_options

NOW = 1_800_000_000.0
HOSTS = [f"app{number}.example.com" for number in range(8)] + ["app0.example.com:8443", "auth.example.com"]


@pytest.fixture
def cookies(tmp_path: Path) -> SessionCookies:
    return SessionCookies(make_options(tmp_path))


def test_a_cookie_opens_at_its_host(cookies: SessionCookies) -> None:
    value = cookies.seal("s1", "app.example.com", NOW, NOW + 60)
    assert cookies.open(value, "app.example.com", NOW) == SessionToken("s1", NOW, NOW + 60)
    assert not cookies.covers("app.example.com.")


def test_a_cookie_of_one_host_is_refused_at_every_other(cookies: SessionCookies) -> None:
    for issued_for, secret_viewers in permutations(HOSTS, 2):
        value = cookies.seal("s1", issued_for, NOW, NOW + 60)
        with pytest.raises(SealError):
            cookies.open(value, secret_viewers, NOW)


def test_with_cookie_domain_hosts_below_it_share_and_others_do_not(tmp_path: Path) -> None:
    cookies = SessionCookies(make_options(tmp_path, cookie_domain="example.com"))
    value = cookies.seal("s1", "a.example.com", NOW, NOW + 60)
    for host in ("b.example.com:8443", "example.com", "example.com:8443"):
        assert cookies.open(value, host, NOW).session_id == "s1"
    assert "Domain=example.com" in set_at(cookies, "a.example.com")[0]
    for foreign in ("example.com.evil.org", "evilexample.com", "host:example.com"):
        assert not cookies.covers(foreign)
        assert not any("Domain" in each for each in set_at(cookies, foreign))
        with pytest.raises(SealError):
            cookies.open(value, foreign, NOW)


def test_an_expired_cookie_is_refused(cookies: SessionCookies) -> None:
    value = cookies.seal("s1", "a", NOW, NOW + 60)
    with pytest.raises(SealError):
        cookies.open(value, "a", NOW + 60)


def test_a_cookie_that_was_opened_is_still_refused_at_every_other_host(cookies: SessionCookies) -> None:
    for issued_for, secret_viewers in permutations(HOSTS, 2):
        value = cookies.seal("s1", issued_for, NOW, NOW + 60)
        assert cookies.open(value, issued_for, NOW) == cookies.open(value, issued_for, NOW + 1)
        with pytest.raises(SealError):
            cookies.open(value, secret_viewers, NOW)


def test_a_cookie_that_was_opened_still_expires(cookies: SessionCookies) -> None:
    value = cookies.seal("s1", "a", NOW, NOW + 60)
    assert cookies.open(value, "a", NOW + 59).session_id == "s1"
    for now in (NOW + 60, NOW + 61):
        with pytest.raises(SealError):
            cookies.open(value, "a", now)
    assert not cookies._opened


def test_a_cookie_that_was_opened_opens_by_its_exact_value_only(cookies: SessionCookies) -> None:
    value = cookies.seal("s1", "a", NOW, NOW + 60)
    cookies.open(value, "a", NOW)
    for other in (value + "A", value[:-1], value.swapcase(), value + "="):
        with pytest.raises(SealError):
            cookies.open(other, "a", NOW)


def test_remembered_choice_expires_and_applies_to_its_host_only(cookies: SessionCookies) -> None:
    headers = [cookie_header(cookies.set_cookies("s1", "a", issued_at=NOW, expires_at=NOW + 60, now=NOW)).encode()]
    for now in (NOW, NOW + 59):
        assert [token.session_id for token in cookies.valid_sessions(headers, "a", now)] == ["s1"]
    assert not cookies.valid_sessions(headers, "b", NOW)
    assert not cookies.valid_sessions([headers[0].replace(b"__Host-", b"__Hose-")], "a", NOW)
    for now in (NOW + 60, NOW + 61):
        assert not cookies.valid_sessions(headers, "a", now)


def test_nothing_is_remembered_of_a_browser_without_a_session(cookies: SessionCookies) -> None:
    assert not cookies.valid_sessions([b"theme=dark; " + b"x" * 1000], "a", NOW)
    assert len(cookies._sessions_by_headers) == 0


def test_only_so_many_opened_cookies_are_remembered_and_nothing_that_did_not_open(
    cookies: SessionCookies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_cookie, "MAX_CACHED", 3)
    values = [cookies.seal(f"s{number}", "a", NOW, NOW + 60) for number in range(5)]
    for value in values:
        cookies.open(value, "a", NOW)
        cookies.open(values[0], "a", NOW)  # a used entry stays in the cache
        with pytest.raises(SealError):
            cookies.open("x" * len(value), "a", NOW)
    assert [value for value, _ in cookies._opened] == [values[3], values[4], values[0]]


def test_no_number_of_planted_cookies_hides_the_real_one(cookies: SessionCookies) -> None:
    planted = [f"_gate={'x' * 80}{number}" for number in range(200)]
    own = cookie_header(set_at(cookies, "a"))
    sent = [b"_gate=short; other=1; _gate=" + b"\xff" * 80, "; ".join([*planted, own]).encode()]
    assert [token.session_id for token in cookies.valid_sessions(sent, "a", NOW)] == ["s1"]
    assert cookies.all_session_ids([own.encode().replace(b"_gate=", b"other=", 1)], "a", NOW) == []


def set_at(cookies: SessionCookies, host_port: str, session_id: str = "s1") -> list[str]:
    return cookies.set_cookies(session_id, host_port, issued_at=NOW, expires_at=NOW + 60, now=NOW)


def test_a_session_has_a_binding_cookie_that_only_this_very_host_can_set(cookies: SessionCookies) -> None:
    session, binding = set_at(cookies, "a.example.com:8443")
    assert session.startswith("_gate=")
    assert binding.startswith("__Host-_gate=")
    assert binding.partition("; ")[2] == "Path=/; Max-Age=60; SameSite=Lax; Secure; HttpOnly"


def test_session_requires_its_binding_cookie_of_this_host(cookies: SessionCookies, tmp_path: Path) -> None:
    hosts, ids = ["a.example.com", "a.example.com:8443", "b.example.com"], ["s1", "s2"]
    made = {(host, id): [each.partition(";")[0] for each in set_at(cookies, host, id)] for host in hosts for id in ids}
    for (host, id), (session, _) in made.items():
        for owner, (_, binding) in made.items():
            counting = cookies.valid_sessions([f"{session}; {binding}".encode()], host, NOW)
            assert bool(counting) is (owner == (host, id))
        for bad in ("", "__Host-_gate=", "__Host-_gate=x", "__HOST-_gate=" + made[host, id][1].partition("=")[2], session):
            assert cookies.valid_sessions([f"{session}; {bad}".encode()], host, NOW) == []
        assert cookies.all_session_ids([session.encode()], host, NOW) == [id]
    other_keys = SessionCookies(make_options(tmp_path, cookie_secret=base64.b64encode(bytes(32)).decode()))
    (session, _), (_, binding) = made["b.example.com", "s1"], set_at(other_keys, "b.example.com")
    assert cookies.valid_sessions([f"{session}; {binding.partition(';')[0]}".encode()], "b.example.com", NOW) == []


def test_with_cookie_domain_each_host_has_a_binding_cookie_of_its_own(tmp_path: Path) -> None:
    cookies = SessionCookies(make_options(tmp_path, cookie_domain="example.com"))
    session, binding = (each.partition(";")[0] for each in set_at(cookies, "a.example.com"))
    sent = [f"{session}; {binding}".encode()]
    assert [token.session_id for token in cookies.valid_sessions(sent, "a.example.com", NOW)] == ["s1"]
    assert cookies.valid_sessions(sent, "b.example.com", NOW) == []
    assert cookies.all_session_ids(sent, "b.example.com", NOW) == ["s1"]


@pytest.mark.parametrize("setting", [{"cookie_secure": False}, {"cookie_name": "__Host-gate"}, {"cookie_name": "__host-gate"}])
def test_where_there_can_be_none_or_none_is_needed_there_is_no_binding_cookie(tmp_path: Path, setting: dict[str, object]) -> None:
    cookies = SessionCookies(make_options(tmp_path, **setting))
    (session,) = set_at(cookies, "a")
    assert [token.session_id for token in cookies.valid_sessions([session.partition(";")[0].encode()], "a", NOW)] == ["s1"]
    assert len(cookies.clear_cookies([], "a", "/")) == 1
    two = [f"{cookies.name}=x; {cookies.name}=y".encode()]
    assert bool(cookies.clear_conflicting(two, "a", "/")) is (cookies.name == "_gate")


def test_cookies_are_cleared_by_the_same_name_path_and_domain(tmp_path: Path) -> None:
    cookies = SessionCookies(make_options(tmp_path, cookie_domain="example.com"))
    assert cookies.clear_cookies([b"_gate=x"], "a.example.com", "/x") == [
        "_gate=; Path=/; Max-Age=0; SameSite=Lax; Domain=example.com; Secure; HttpOnly",
        "__Host-_gate=; Path=/; Max-Age=0; SameSite=Lax; Secure; HttpOnly",
    ]


def test_duplicate_cookies_are_all_ignored(cookies: SessionCookies) -> None:
    assert cookies.clear_conflicting([b"_gate=x"], "a.example.com", "/b/c") == []
    cleared = cookies.clear_conflicting([b"_gate=x; _gate=y"], "a.example.com:8443", "/b/c")
    places = {(each.partition("Domain=")[2].partition(";")[0], each.partition("Path=")[2].partition(";")[0]) for each in cleared}
    assert places == {(domain, path) for domain in ("", "a.example.com", "example.com") for path in ("/", "/b", "/b/", "/b/c", "/b/c/")}
    assert all("Max-Age=0" in each for each in cleared)


async def test_two_live_sessions_that_both_count_are_none(tmp_path: Path) -> None:
    cookies = SessionCookies(make_options(tmp_path, cookie_secure=False))
    one, two = (cookie_header(set_at(cookies, "a", id)) for id in ("s1", "s2"))

    async def of(*live: str) -> str | None:
        async def find(id: str, now: float) -> str | None:
            return id if id in live else None

        return await cookies.find_only_session([one.encode(), f"{two}; {one}".encode()], "a", NOW, find)

    with capture_logs() as logs:
        assert [await of("s1"), await of("s2"), await of()] == ["s1", "s2", None]
        assert logs == []
        assert await of("s1", "s2") is None
    assert [entry["event"] for entry in logs] == ["ambiguous session cookies ignored"]


def test_a_value_of_another_purpose_is_no_session(cookies: SessionCookies, tmp_path: Path) -> None:
    attempts = SignInAttempts(make_options(tmp_path), "route")
    _, (set_cookie, *_) = attempts.start({"sid": "s1", "iat": NOW, "exp": NOW + 9}, "a", [], NOW)
    with pytest.raises(SealError):
        cookies.open(set_cookie.split("=", 1)[1].split(";")[0], "a", NOW)
