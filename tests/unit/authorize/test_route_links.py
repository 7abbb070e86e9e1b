"""Ids of routes in links: stable, different per route and upstream, and keyed."""

from pathlib import Path

from authorize.route_links import RouteLinks
from tests.support.options import make_options
from tests.unit.authorize.builders import make_route


def test_an_id_in_links_is_stable_and_nobody_without_the_secret_can_compute_it(tmp_path: Path) -> None:
    options = make_options(tmp_path)
    other = make_options(tmp_path, shared_secret="QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=")
    route, moved = make_route(to="http://10.7.3.21:8443"), make_route(to="http://10.7.3.22:8443")
    ids = [RouteLinks(options).id_of(route), RouteLinks(options).id_of(moved), RouteLinks(other).id_of(route), route.id]
    assert len(set(ids)) == len(ids)
    assert RouteLinks(options).id_of(route) == ids[0]
