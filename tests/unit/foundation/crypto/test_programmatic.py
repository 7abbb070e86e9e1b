"""The values of programmatic login are not interchangeable, nor with cookies or handoff tokens (classes B13, B15)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from config.options import Options
from foundation.crypto.handoff import TO_CLIENT_APPLICATION, HandoffTokens
from foundation.crypto.programmatic import ProgrammaticRequest, ProgrammaticRequests, ProgrammaticTokens
from foundation.crypto.sealing import Sealer
from foundation.crypto.session_cookie import SessionCookies
from foundation.errors import SealError
from tests.support.options import make_options

NOW = 1_800_000_000.0
HOST = "app.example.com"
AUTHENTICATE = "auth.example.com"


@pytest.fixture
def options(tmp_path: Path) -> Options:
    # One secret for both: purposes alone must keep the values apart.
    secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ="
    return make_options(tmp_path, cookie_secret=secret, shared_secret=secret)


def test_each_comes_back_as_it_went(options: Options) -> None:
    wanted = ProgrammaticRequest("https://app.example.com", "http://localhost:7000/cb?a=b", ("mfa",), 900, ("corp", "partner"))
    requests, handoffs, tokens = ProgrammaticRequests(options), HandoffTokens(options, TO_CLIENT_APPLICATION), ProgrammaticTokens(options)
    assert requests.open(requests.seal(wanted, NOW), NOW) == wanted
    opened = handoffs.open(handoffs.seal("s1", "", HOST, "http://localhost/", NOW), HOST, NOW)
    assert (opened.session_id, opened.redirect_uri, opened.expires_at) == ("s1", "http://localhost/", NOW + 300)
    token = tokens.open(tokens.seal("s1", HOST, NOW, NOW + 60), HOST, NOW)
    assert (token.session_id, token.issued_at, token.expires_at) == ("s1", NOW, NOW + 60)


def test_none_opens_as_another(options: Options) -> None:
    far = NOW + 600
    sealed = [
        ProgrammaticTokens(options).seal("s1", HOST, NOW, far),
        HandoffTokens(options, TO_CLIENT_APPLICATION).seal("s1", "", HOST, "http://localhost/", NOW),
        HandoffTokens(options).seal("s1", "attempt", HOST, "https://app.example.com/", NOW),
        SessionCookies(options).seal("s1", HOST, NOW, far),
        ProgrammaticRequests(options).seal(ProgrammaticRequest("https://app.example.com", "http://localhost/"), NOW),
    ]

    def opens(open_it: Callable[[], object]) -> bool:
        try:
            return open_it() is not None
        except (SealError, KeyError):
            return False

    for number, value in enumerate(sealed):
        opened = [
            opens(lambda value=value: ProgrammaticTokens(options).open(value, HOST, NOW)),
            opens(lambda value=value: HandoffTokens(options, TO_CLIENT_APPLICATION).open(value, HOST, NOW)),
            opens(lambda value=value: HandoffTokens(options).open(value, HOST, NOW)),
            opens(lambda value=value: SessionCookies(options).open(value, HOST, NOW)),
            opens(lambda value=value: ProgrammaticRequests(options).open(value, NOW)),
        ]
        assert opened == [number == each for each in range(5)]


def test_a_token_is_for_one_host_and_ends(options: Options) -> None:
    tokens = ProgrammaticTokens(options)
    token = tokens.seal("s1", HOST, NOW, NOW + 60)
    refused = [(token, host, NOW) for host in ("other.example.com", f"{HOST}:8443", "", f"host:{HOST}")]
    refused += [(broken, HOST, NOW) for broken in ("", "x", token[:-1], token + "A", token.swapcase(), token + "=")]
    for arguments in [*refused, (token, HOST, NOW + 60)]:
        with pytest.raises(SealError):
            tokens.open(*arguments)


def test_cookie_domain_widens_no_token(tmp_path: Path) -> None:
    tokens = ProgrammaticTokens(make_options(tmp_path, cookie_domain=".example.com"))
    with pytest.raises(SealError):
        tokens.open(tokens.seal("s1", HOST, NOW, NOW + 60), "other.example.com", NOW)


def test_the_question_waits_a_quarter_of_an_hour(options: Options) -> None:
    requests = ProgrammaticRequests(options)
    sealed = requests.seal(ProgrammaticRequest("https://app.example.com", "http://localhost/"), NOW)
    assert requests.open(sealed, NOW + 899)
    with pytest.raises(SealError):
        requests.open(sealed, NOW + 900)


def test_value_sealed_by_an_earlier_release_is_refused(options: Options) -> None:
    purposes = ("programmatic request", "programmatic hand-over", "programmatic token")
    request, handoff, token = (
        Sealer(options.cookie_secret, purpose).seal({"at": "https://app.example.com"}, audience=audience, expires_at=NOW + 60)
        for purpose, audience in zip(purposes, (AUTHENTICATE, HOST, HOST), strict=True)
    )
    with pytest.raises(SealError):
        ProgrammaticRequests(options).open(request, NOW)
    with pytest.raises(SealError):
        HandoffTokens(options, TO_CLIENT_APPLICATION).open(handoff, HOST, NOW)
    with pytest.raises(SealError):
        ProgrammaticTokens(options).open(token, HOST, NOW)
