"""Which routes are taken over from one reading to the next."""

from datetime import date

from config.routes.route import Route
from config.routes.route_cache import RouteCache

WRITTEN = {"from": "https://a.example.com", "to": "http://127.0.0.1:1"}


def test_a_route_is_known_in_the_next_reading_and_forgotten_after_one_without_it() -> None:
    known, route = RouteCache(), Route.model_validate(WRITTEN)
    known.begin()
    assert known.find(WRITTEN) is None
    known.add(WRITTEN, route)
    known.begin()
    assert known.find(dict(WRITTEN)) is route
    known.begin()
    known.begin()
    assert known.find(WRITTEN) is None


def test_true_is_not_one() -> None:
    known, route = RouteCache(), Route.model_validate({**WRITTEN, "allow_websockets": True})
    known.begin()
    known.add({**WRITTEN, "allow_websockets": True}, route)
    known.begin()
    assert {"allow_websockets": True} == {"allow_websockets": 1}
    assert known.find({**WRITTEN, "allow_websockets": 1}) is None


def test_the_same_text_is_the_same_whoever_made_it_and_a_date_of_toml_is_no_obstacle() -> None:
    known, route = RouteCache(), Route.model_validate(WRITTEN)
    written = {**WRITTEN, "name": date(2026, 1, 2), "allowed_users": ["ann", "ann"]}
    again = {
        "".join(key): value
        for key, value in {**written, "name": date(2026, 1, 2), "allowed_users": ["".join("ann"), "an" + "n"[:]]}.items()
    }
    for first, second in ((written, again), ({**written, "name": "a"}, {**again, "name": "".join(["a"])})):
        known.begin()
        known.add(first, route)
        known.begin()
        assert known.find(second) is route
