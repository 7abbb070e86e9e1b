import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import ValidationError

from authorize.policy.reasons import Reason
from config.routes.route import Route
from foundation.crypto.sign_in_attempts import SignInAttempts
from foundation.crypto.signed_urls import UrlSigner
from proxy.sign_in.sign_in_urls import MAX_REQUESTED_URL, SignInUrls, requested_url, step_up_challenge
from tests.support.asgi import incoming_from
from tests.support.options import make_options

NOW = 1_800_000_000.0


def test_the_browser_is_sent_to_a_signed_url_and_holds_the_attempt_it_names(tmp_path: Path) -> None:
    options = make_options(tmp_path)
    incoming = incoming_from("https://app.example.com/a?b=1&c=%C3%BC")
    location, set_cookies = SignInUrls(options).start(incoming, "https", NOW)
    params = UrlSigner(options).verify(location, NOW)
    assert params["gate_redirect_uri"] == "https://app.example.com/a?b=1&c=%C3%BC"
    assert location.startswith("https://auth.example.com/.gate/sign_in?")
    cookie = set_cookies[0].split(";")[0].encode()
    attempts = SignInAttempts(options, "route")
    assert attempts.find(params["gate_attempt"], [cookie], "app.example.com", NOW) is not None


@pytest.mark.parametrize(
    ("url", "returned"),
    [
        ("https://a.example/x?y=1", "https://a.example/x?y=1"),
        ("https://a.example/x?gate_session=secret&y=1", "https://a.example/x?y=1"),
        ("https://a.example:8443/", "https://a.example:8443/"),
        ("https://a.example//evil.example/", "https://a.example//evil.example/"),
        ("https://a.example/x?" + "y" * MAX_REQUESTED_URL, "https://a.example/x"),
        ("https://a.example/" + "x" * MAX_REQUESTED_URL + "?y", "https://a.example/"),
    ],
)
def test_user_returns_to_original_page(url: str, returned: str) -> None:
    assert requested_url(incoming_from(url), "https") == returned


def test_hostile_paths_stay_inside_the_signed_parameter(tmp_path: Path) -> None:
    options = make_options(tmp_path)
    incoming = incoming_from("https://app.example.com/a&gate_redirect_uri=https://evil.example?x")
    location, _ = SignInUrls(options).start(incoming, "https", NOW)
    assert parse_qs(urlsplit(location).query)["gate_redirect_uri"] == ["https://app.example.com/a&gate_redirect_uri=https://evil.example?x"]


# RFC 9110 11.2, with quoted strings that need no escape.
CHALLENGE = re.compile(r'Bearer ([a-z_]+="[ !#-\[\]-~]*")(, [a-z_]+="[ !#-\[\]-~]*")*')


def strong_route(acr: str) -> Route | None:
    keys = {"from": "https://app.example.com", "to": "http://up", "allow_any_authenticated_user": True}
    try:
        return Route.model_validate({**keys, "acr_values": [acr], "max_age": "15m"})
    except ValidationError:
        return None


def test_no_way_to_sign_in_that_a_route_may_name_breaks_the_challenge() -> None:
    """Every character that could end a quoted string, a parameter or the header, and those beside them."""
    routes = {char: strong_route(f"a{char}b") for char in map(chr, range(0x180))}
    assert {char for char, route in routes.items() if route is not None} == set(map(chr, range(0x21, 0x7F))) - set('"\\')
    for char, route in routes.items():
        if route is not None:
            value = step_up_challenge(route, Reason.ACR_NOT_MET.value)
            assert CHALLENGE.fullmatch(value), value
            assert dict(re.findall(r'([a-z_]+)="([^"]*)"', value))["acr_values"] == f"a{char}b"


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_fits_into_the_challenge(reason: Reason) -> None:
    route = strong_route("mfa")
    assert route is not None
    assert CHALLENGE.fullmatch(step_up_challenge(route, reason.value))
