"""From options to the routes that are in force."""

import base64
from pathlib import Path

from authorize.route_settings import RouteLinks, default_ports, route_table
from tests.support.certs import certificate_files
from tests.support.client_certificates import authority
from tests.support.options import make_options
from tests.unit.authorize.builders import make_route

ROUTE = {"from": "https://app.example.com", "to": "http://up", "allow_public_unauthenticated_access": True}


def test_behind_something_that_ends_tls_both_ports_go_unsaid(tmp_path: Path) -> None:
    assert default_ports(make_options(tmp_path)) == {80, 443}


def test_the_authority_of_all_routes_is_that_of_each(tmp_path: Path) -> None:
    files = certificate_files(tmp_path, "app.example.com")
    pem = authority().pem
    tls = {"insecure_server": None, "certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}
    options = make_options(tmp_path, policy=[ROUTE], client_ca=base64.b64encode(pem).decode(), **tls)
    (route,) = route_table(options).routes()
    assert default_ports(options) == {443}
    assert route.client_ca is not None
    assert (route.client_ca.pem, len(route.certificate_requirements)) == (pem, 1)


def test_link_ids_are_stable_and_keyed(tmp_path: Path) -> None:
    options = make_options(tmp_path)
    other = make_options(tmp_path, shared_secret="QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=")
    route, moved = make_route(to="http://10.7.3.21:8443"), make_route(to="http://10.7.3.22:8443")
    ids = [RouteLinks(options).link_id(route), RouteLinks(options).link_id(moved), RouteLinks(other).link_id(route), route.id]
    assert len(set(ids)) == len(ids)
    assert RouteLinks(options).link_id(route) == ids[0]
