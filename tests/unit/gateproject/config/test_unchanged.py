"""Which routes are taken over from one reading to the next."""

from gateproject.config.route import Route
from gateproject.config.unchanged import KnownRoutes

WRITTEN = {"from": "https://a.example.com", "to": "http://127.0.0.1:1"}


def test_a_route_is_known_in_the_next_reading_and_forgotten_after_one_without_it() -> None:
    known, route = KnownRoutes(), Route.model_validate(WRITTEN)
    known.begin()
    assert known.find(WRITTEN) is None
    known.add(WRITTEN, route)
    known.begin()
    assert known.find(dict(WRITTEN)) is route
    known.begin()
    known.begin()
    assert known.find(WRITTEN) is None


def test_true_is_not_one() -> None:
    known, route = KnownRoutes(), Route.model_validate({**WRITTEN, "allow_websockets": True})
    known.begin()
    known.add({**WRITTEN, "allow_websockets": True}, route)
    known.begin()
    assert {"allow_websockets": True} == {"allow_websockets": 1}
    assert known.find({**WRITTEN, "allow_websockets": 1}) is None
