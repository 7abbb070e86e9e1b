"""From options to the routes that are in force."""

import base64
from pathlib import Path

from authorize.state import default_ports, route_table
from tests.support.certs import certificate_files
from tests.support.client_certificates import authority
from tests.support.options import make_options

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
    assert (route.client_ca.pem, len(route.requirements)) == (pem, 1)
