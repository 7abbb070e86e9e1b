from pathlib import Path

import pytest

from foundation.crypto.sign_in_attempts import LIFETIME, MAX_BYTES, MAX_CONCURRENT, SignInAttempts, is_attempt_id
from tests.support.options import make_options

NOW = 1_800_000_000.0
HOST = "app.example.com"


@pytest.fixture
def attempts(tmp_path: Path) -> SignInAttempts:
    return SignInAttempts(make_options(tmp_path), "provider")


def sent_back(set_cookies: list[str]) -> list[bytes]:
    """The Cookie header of a browser that got these Set-Cookie values, deletions applied."""
    jar: dict[str, str] = {}
    for text in set_cookies:
        name, value = text.split(";")[0].split("=", 1)
        jar.pop(name, None)
        if "Max-Age=0" not in text:
            jar[name] = value
    return ["; ".join(f"{name}={value}" for name, value in jar.items()).encode()]


def test_attempt_is_found_by_the_browser_that_started_it(attempts: SignInAttempts) -> None:
    attempt_id, set_cookies = attempts.start({"nonce": "n"}, HOST, [], NOW)
    assert is_attempt_id(attempt_id)
    (own,) = sent_back(set_cookies)
    for header in (own, b"__Host-_gate_signin_" + attempt_id.encode() + b"=planted; " + own):
        assert attempts.find(attempt_id, [header], HOST, NOW + 1) == {"at": NOW, "nonce": "n"}
    assert attempts.active_ids([own, b"__Host-_gate_signin_" + b"a" * 22 + b"=planted"], HOST, NOW + 1) == [attempt_id]


def test_another_browser_host_purpose_or_time_finds_nothing(attempts: SignInAttempts, tmp_path: Path) -> None:
    attempt_id, set_cookies = attempts.start({}, HOST, [], NOW)
    cookies = sent_back(set_cookies)
    assert attempts.find(attempt_id, [], HOST, NOW) is None
    assert attempts.find(attempt_id, cookies, "other.example.com", NOW) is None
    assert attempts.find(attempt_id, cookies, HOST, NOW + LIFETIME) is None
    assert SignInAttempts(make_options(tmp_path), "route").find(attempt_id, cookies, HOST, NOW) is None


def test_a_cookie_renamed_to_another_attempt_is_refused(attempts: SignInAttempts) -> None:
    first, set_cookies = attempts.start({}, HOST, [], NOW)
    second, _ = attempts.start({}, HOST, [], NOW)
    renamed = [sent_back(set_cookies)[0].replace(first.encode(), second.encode())]
    assert attempts.find(second, renamed, HOST, NOW) is None


def test_parallel_tabs_each_keep_their_attempt(attempts: SignInAttempts) -> None:
    started = [attempts.start({"tab": tab}, HOST, [], NOW) for tab in range(5)]
    cookies = sent_back([cookie for _, set_cookies in started for cookie in set_cookies])
    assert [attempts.find(attempt_id, cookies, HOST, NOW)["tab"] for attempt_id, _ in started] == [0, 1, 2, 3, 4]  # type: ignore[index]


def test_browser_has_a_maximum_of_eight_attempts_and_the_oldest_is_dropped(attempts: SignInAttempts) -> None:
    everything: list[str] = []
    ids = []
    for number in range(MAX_CONCURRENT + 3):
        attempt_id, set_cookies = attempts.start({}, HOST, sent_back(everything), NOW + number)
        everything += set_cookies
        ids.append(attempt_id)
    cookies = sent_back(everything)
    found = [attempts.find(attempt_id, cookies, HOST, NOW + 20) is not None for attempt_id in ids]
    assert found == [False] * 3 + [True] * MAX_CONCURRENT


def test_attempts_with_long_claims_never_outgrow_a_header(attempts: SignInAttempts) -> None:
    everything: list[str] = []
    for number in range(12):
        _, set_cookies = attempts.start({"to": "x" * 2000}, HOST, sent_back(everything), NOW + number)
        everything += set_cookies
    (header,) = sent_back(everything)
    assert 2000 < len(header) < MAX_BYTES + 1024
    assert len(attempts.start({"to": "x" * MAX_BYTES}, HOST, [], NOW)[1]) == 1


def test_planted_junk_is_the_first_to_go(attempts: SignInAttempts) -> None:
    junk = [b"; ".join(b"__Host-_gate_signin_%s=x" % (b"%022d" % number) for number in range(10))]
    _, set_cookies = attempts.start({}, HOST, junk, NOW)
    assert len(set_cookies) == 1 + 10 - (MAX_CONCURRENT - 1)
    others = [b"; ".join(name % number + b"=x" for name in (b"__Host-_gate_signin_short%d", b"x" * 20 + b"%022d") for number in range(9))]
    assert len(attempts.start({}, HOST, others, NOW)[1]) == 1


@pytest.mark.parametrize("text", ["", "a" * 21, "a" * 23, "a" * 21 + ";", "a" * 21 + "=", "é" * 22, "../" + "a" * 19])
def test_only_own_format_is_an_attempt_id(text: str) -> None:
    assert not is_attempt_id(text)


@pytest.mark.parametrize(("secure", "prefix"), [(True, "__Host-_gate_signin_"), (False, "_gate_signin_")])
def test_an_attempt_counts_under_the_name_that_only_its_own_host_can_set(tmp_path: Path, secure: bool, prefix: str) -> None:
    attempts = SignInAttempts(make_options(tmp_path, cookie_secure=secure), "route")
    attempt_id, set_cookies = attempts.start({}, HOST, [], NOW)
    (header,) = sent_back(set_cookies)
    assert header.startswith(prefix.encode() + attempt_id.encode() + b"=")
    for name in (b"_gate_signin_", b"__Host-_gate_signin_", b"__host-_gate_signin_", b"__Secure-_gate_signin_"):
        planted = [name + header.removeprefix(prefix.encode())]
        assert (attempts.find(attempt_id, planted, HOST, NOW) is not None) is (name == prefix.encode())
