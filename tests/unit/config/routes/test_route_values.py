"""Accepted forms of route values. Rejected ones are in test_invalid_values.py."""

from datetime import timedelta
from typing import Any

import pytest

from config.routes.route import Route
from foundation.values import Url
from tests.unit.config.conftest import Problems


def route(**keys: Any) -> Route:
    return Route.model_validate({"from": "https://app.example.com", "to": "http://upstream:8000", **keys})


def test_from_may_have_a_wildcard_a_port_and_a_slash() -> None:
    assert route(**{"from": "https://*.Example.com:8443/"}).from_ == Url("https", "*.example.com", 8443)


def test_path_in_from_is_refused_with_the_specified_message(route_problems: Problems) -> None:
    assert route_problems(**{"from": "https://app.example.com/x"})["from"] == (
        "config: policy source url (https://app.example.com/x) contains a path, but it should be set using the path field instead"
    )


def test_claims_are_flattened() -> None:
    claims = {"role": "admin", "realm": {"access": ["a", "b"], "deep": {"level": 5}}, "realm.access": [True]}
    assert route(allowed_idp_claims=claims).allowed_idp_claims == {
        "role": ("admin",),
        "realm.access": ("a", "b", True),
        "realm.deep.level": (5,),
    }


@pytest.mark.parametrize(
    ("written", "origin"),
    [
        ("HTTPS://App.Example.com:443", "https://app.example.com"),
        ("capacitor://localhost", "capacitor://localhost"),
        ("ionic://localhost:8080", "ionic://localhost:8080"),
        ("chrome-extension://abcdefghijklmnopabcdefghijklmnop", "chrome-extension://abcdefghijklmnopabcdefghijklmnop"),
        ("moz-extension://2c127fa4-62c7-7e4f-90e5-472b45eecfdc", "moz-extension://2c127fa4-62c7-7e4f-90e5-472b45eecfdc"),
        ("app://obsidian.md", "app://obsidian.md"),
        ("app://x", "app://x"),
    ],
)
def test_origins_of_applications_and_extensions_are_exact(written: str, origin: str) -> None:
    assert route(allow_websockets=True, websocket_origins=[written]).websocket_origins == (origin,)


def test_the_strength_of_a_sign_in_is_a_list_and_a_time() -> None:
    found = route(acr_values="urn:example:mfa,2", max_age="1m")
    assert (found.acr_values, found.max_age) == (("urn:example:mfa", "2"), timedelta(minutes=1))


def test_the_strength_of_a_sign_in_needs_one(route_problems: Problems) -> None:
    for open_to_all in ({"allow_public_unauthenticated_access": True}, {"to": None, "redirect": {"https_redirect": True}}):
        found = route_problems(acr_values=["mfa"], max_age="5m", **open_to_all)
        assert {key: "no effect" in found[key] for key in ("acr_values", "max_age")} == {"acr_values": True, "max_age": True}
