"""Routes are found by what they say as a look at each of them would find them."""

import copy
import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from config.reference.all_settings import route_keys
from config.routes.configured_routes import ConfiguredRoutes
from config.routes.route import Route
from tests.support.client_certificates import authority
from tests.support.options import make_options

PLAIN = {"from": "https://app.example.com", "to": "http://127.0.0.1:1"}


def route(**keys: Any) -> Route:
    return Route.model_validate({**PLAIN, **keys})


def random_routes(chance: random.Random) -> Iterator[Route]:
    """Routes with an example of a key or two; what no route may be is left out."""
    keys = [key for key in route_keys() if not key.name.endswith("_file")]
    while True:
        written = {key.name: chance.choice(key.field.examples or [None]) for key in chance.sample(keys, chance.randrange(3))}
        try:
            yield route(**written)
        except ValueError:
            continue


def test_a_route_says_what_is_not_as_in_one_that_does_not() -> None:
    assert route().said == {"from_", "to"}
    assert route(mode="enforce", allowed_users=[], timeout=None).said == {"from_", "to"}
    assert route(mode="shadow", allowed_users=["a@example.com"]).said == {"from_", "to", "mode", "allowed_users"}


def test_what_a_file_says_is_said(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(authority("upstreams").pem)
    options = make_options(tmp_path, policy=[{**PLAIN, "tls_custom_ca_file": "ca.pem", "allowed_users": ["a@example.com"]}])
    assert ConfiguredRoutes.of(options.policy).saying("tls_custom_ca") == [(0, options.policy[0])]


@pytest.mark.parametrize("seed", range(5))
def test_whoever_says_one_of_these_is_found_in_order_and_with_its_place(seed: int) -> None:
    chance = random.Random(seed)
    routes = ConfiguredRoutes(made for made, _ in zip(random_routes(chance), range(40), strict=False))
    unsaid = {name: field.get_default(call_default_factory=True) for name, field in Route.model_fields.items()}
    for _ in range(100):
        names = chance.sample(sorted(Route.model_fields), chance.randrange(1, 4))
        looked = [(place, each) for place, each in enumerate(routes) if any(getattr(each, name) != unsaid[name] for name in names)]
        assert routes.saying(*names) == looked


def test_what_no_route_can_say_is_a_mistake_of_who_asks() -> None:
    with pytest.raises(KeyError, match="bearer"):
        ConfiguredRoutes([route()]).saying("bearer")


def test_those_beside_others_are_other_objects_whatever_they_say() -> None:
    kept, again = route(), route()
    assert ConfiguredRoutes([again, kept, kept]).beside(ConfiguredRoutes([kept])) == [(0, again)]
    assert ConfiguredRoutes().beside(ConfiguredRoutes([kept])) == []


def test_a_copy_knows_its_own_routes_alone() -> None:
    routes = ConfiguredRoutes([route()])
    assert routes.beside(ConfiguredRoutes()) == [(0, routes[0])]
    assert ConfiguredRoutes().beside(routes) == []
    for copied in (pickle.loads(pickle.dumps(routes)), copy.deepcopy(routes)):
        assert type(copied) is ConfiguredRoutes
        assert copied == routes
        assert routes.beside(copied) == [(0, routes[0])]


def test_a_list_is_made_once() -> None:
    routes = ConfiguredRoutes([route()])
    assert ConfiguredRoutes.of(routes) is routes
    assert ConfiguredRoutes.of([*routes]) == routes
