"""Behaviour of mozilla-django-oidc that gate relies on, and behaviour that gate must never use."""

import inspect

import pytest
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.utils import generate_code_challenge
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from authenticate.provider.django_oidc import GateBackend, GateCallbackView, GateRequestView, check_response_issuer, parse_unique_params
from foundation.errors import BadRequest


@pytest.mark.parametrize(
    ("own", "overridden", "names"),
    [
        (
            GateBackend,
            OIDCAuthenticationBackend,
            ["authenticate", "get_token", "verify_token", "get_userinfo", "get_or_create_user", "get_settings"],
        ),
        (GateRequestView, OIDCAuthenticationRequestView, ["get", "get_settings"]),
        (GateCallbackView, OIDCAuthenticationCallbackView, ["get", "get_settings"]),
    ],
)
def test_each_step_with_a_check_missing_is_overridden(own: type, overridden: type, names: list[str]) -> None:
    for name in names:
        assert hasattr(overridden, name), f"the library has no {name} any more"
        assert inspect.getattr_static(own, name) is not inspect.getattr_static(overridden, name)


def test_the_code_challenge_is_that_of_rfc_7636_appendix_b() -> None:
    assert generate_code_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "S256") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


@pytest.mark.parametrize("query", ["a=1&a=1", "a=1&a=2", "a=1&b=2&%61=3", "code=&code=x", "a=%ff", "&".join(f"p{n}=1" for n in range(60))])
def test_a_query_with_two_meanings_is_refused(query: str) -> None:
    with pytest.raises(BadRequest):
        parse_unique_params(query)


def test_the_issuer_of_an_answer_is_compared_character_by_character() -> None:
    check_response_issuer({}, "https://idp.example")
    check_response_issuer({"iss": "https://idp.example"}, "https://idp.example")
    for other in ("https://idp.example/", "https://IDP.example", "https://idp.example.evil", ""):
        with pytest.raises(BadRequest):
            check_response_issuer({"iss": other}, "https://idp.example")


async def test_request_parameters_are_added_and_never_override_required_ones(tmp_path, site) -> None:
    from urllib.parse import parse_qs, urlsplit

    from tests.support.authenticate_site import Site

    added = Site(tmp_path, site.idp, site._django_pages, idp_request_params={"prompt": "select_account"})
    object.__setattr__(added.client.provider, "request_params", {"prompt": "login", "state": "evil", "nonce": "evil"})
    params = parse_qs(urlsplit(await added.browser().to_provider()).query)
    assert params["prompt"] == ["login"]
    assert "evil" not in params["state"] + params["nonce"]
    await added.service.stop()
