"""Identity headers of a route, which only gate may set."""

from pathlib import Path
from typing import Any

import pytest

from config.fields.header_template import Variable
from config.routes.route_identity_headers import (
    PRESETS,
    IdentityHeaderNames,
    header_templates,
    is_per_request,
    reserved_headers,
    sends_assertion,
    sends_identity,
)
from foundation.errors import ConfigError
from tests.support.options import make_options
from tests.unit.authorize.builders import make_route


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_a_set_of_templates_that_can_be_read(preset: str) -> None:
    route = make_route(identity_headers=preset)
    assert set(reserved_headers(route)) == {name.lower().encode() for name in PRESETS[preset]}
    assert sends_identity(route)
    assert not is_per_request(route)


def test_route_values_override_presets() -> None:
    route = make_route(identity_headers="remote-user", set_request_headers={"remote_user": "${claim.email}", "Remote-Name": "nobody"})
    assert header_templates(route)["remote_user"] == (Variable("claim.email"),)
    assert set(header_templates(route)) == {"remote_user", "Remote-Email", "Remote-Groups"}
    assert set(reserved_headers(route)) == {b"remote_user", b"remote-user", b"remote-name", b"remote-email", b"remote-groups"}


@pytest.mark.parametrize(
    ("keys", "trusted"),
    [
        ({"set_request_headers": {"remote_user": "${claim.email}"}}, {b"remote-user", b"remote-name", b"remote-email", b"remote-groups"}),
        ({"set_request_headers": {"Remote-User": "guest"}}, {b"remote-groups"}),  # a fixed header is trusted as well
        ({"set_request_headers": {"X-Remote-User": "${user}"}}, {b"x-remote-uid", b"x-remote-group"}),
        ({"assertion_header": "Cf-Access-Jwt-Assertion"}, {b"cf-access-authenticated-user-email"}),
    ],
)
def test_trusted_headers_alongside_are_stripped_too(keys: dict[str, Any], trusted: set[bytes]) -> None:
    assert trusted <= set(reserved_headers(make_route(**keys)))
    assert reserved_headers(make_route(set_request_headers={"X-Of-Its-Own": "${user}", "X-Fixed": "1"})) == (b"x-of-its-own",)


APP = "http://app.internal"
IDENTITY = {
    "identity_headers": "remote-user",
    "set_request_headers": {"X-Webauth-User": "${claim.email}", "Authorization": "Token ${user}"},
}


@pytest.mark.parametrize("to", [APP, f"{APP}:80", f"{APP}/below", ["http://other.internal", APP], "https://app.internal:80"])
def test_identity_headers_of_one_route_are_stripped_on_others(to: Any) -> None:
    identified, other = make_route(to=["http://a.internal", APP], **IDENTITY), make_route(to=to, allow_public_unauthenticated_access=True)
    expected = {b"remote-user", b"remote-name", b"remote-email", b"remote-groups", b"x-webauth-user"}
    names = IdentityHeaderNames([other, identified])
    assert set(names.headers_for(other)) == expected, "but a client's own Authorization is for the application to judge"
    assert set(names.headers_for(identified)) == expected | {b"authorization"}
    assert set(IdentityHeaderNames([other]).headers_for(other)) == set()


@pytest.mark.parametrize("to", ["http://app.internal:8080", "https://app.internal", "http://other.internal"])
def test_headers_of_another_upstream_are_left_to_clients(to: str) -> None:
    assert IdentityHeaderNames([make_route(to=APP, **IDENTITY)]).headers_for(make_route(to=to)) == ()


def test_a_route_in_shadow_changes_nothing() -> None:
    assert IdentityHeaderNames([make_route(to=APP, mode="shadow", **IDENTITY)]).headers_for(make_route(to=APP)) == ()


def test_a_forwarding_header_of_one_route_stays_gates_own_on_the_others() -> None:
    identified = make_route(to=APP, set_request_headers={"X-Forwarded-For": "${user}", "X-Real-Ip": "${user}", "Forwarded": "${user}"})
    assert IdentityHeaderNames([identified]).headers_for(make_route(to=APP)) == ()


@pytest.mark.parametrize(
    ("keys", "adds", "signs", "varies"),
    [
        ({}, False, False, False),
        ({"set_request_headers": {"X-A": "a $$ b"}}, False, False, False),
        ({"pass_identity_headers": True}, True, True, False),
        ({"assertion_header": "X-Assertion"}, True, True, False),
        ({"identity_headers": "iap"}, True, True, False),
        ({"identity_headers": "remote-user"}, True, False, False),
        ({"set_request_headers": {"X-A": "${request_id}"}}, True, False, True),
        ({"set_request_headers": {"X-A": "${client_certificate.fingerprint}"}}, True, False, True),
    ],
)
def test_sent_headers(keys: dict[str, Any], adds: bool, signs: bool, varies: bool) -> None:
    route = make_route(**keys)
    assert (sends_identity(route), sends_assertion(route), is_per_request(route)) == (adds, signs, varies)


@pytest.mark.parametrize(
    "keys",
    [
        {"set_request_headers": {"X-A": "${nobody}"}},
        {"set_request_headers": {"Host": "${claim.host}"}},
        {"set_request_headers": {"X_Request_Id": "${user}"}},
        {"set_request_headers": {"Impersonate-User": "${user}"}},
        {"assertion_header": "Authorization"},
        {"assertion_header": "x_gate_jwt_assertion"},
        {"assertion_header": "two words"},
        {"identity_headers": "unheard-of"},
    ],
)
def test_unsendable_value_is_an_error(tmp_path: Path, keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        make_options(tmp_path, policy=[{"from": "https://app.example.com", "to": "http://up", **keys}])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("127.0.0.1", "localhost"), ("127.0.0.1", "[::ffff:127.0.0.1]"), ("127.0.0.1", "[::1]"), ("localhost", "app.localhost"),
        ("192.0.2.7", "[::ffff:192.0.2.7]"), ("[2001:db8::1]", "[2001:db8:0:0::1]"),
    ],
)  # fmt: skip
def test_spellings_of_one_address_are_one_upstream(one: str, other: str) -> None:
    for identified, quiet in ((one, other), (other, one)):
        names = IdentityHeaderNames([make_route(to=f"http://{identified}:9000", identity_headers="remote-user")])
        assert b"remote-user" in names.headers_for(make_route(to=f"http://{quiet}:9000"))
        assert names.headers_for(make_route(to=f"http://{quiet}:9001")) == ()
