"""What the values of a route may look like; that wrong ones are refused, test_route.py shows."""

from typing import Any

from gateproject.config.route import Route
from gateproject.config.types import Url
from tests.unit.gateproject.config.conftest import Problems


def route(**keys: Any) -> Route:
    return Route.model_validate({"from": "https://app.example.com", "to": "http://upstream:8000", **keys})


def test_from_may_have_a_wildcard_a_port_and_a_slash() -> None:
    assert route(**{"from": "https://*.Example.com:8443/"}).from_ == Url("https", "*.example.com", 8443)


def test_a_path_in_from_is_refused_in_the_words_of_the_specification(route_problems: Problems) -> None:
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
