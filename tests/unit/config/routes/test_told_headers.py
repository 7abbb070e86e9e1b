"""By which headers a route's upstream is told who asks, and that only gate says so."""

from pathlib import Path
from typing import Any

import pytest

from config.routes.told_headers import PRESETS, sends_assertion, tells_person, told_names, told_templates, varies_by_request
from config.types.header_template import Variable
from foundation.errors import ConfigError
from tests.support.options import make_options
from tests.unit.authorize.builders import make_route


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_a_set_of_templates_that_can_be_read(preset: str) -> None:
    route = make_route(identity_headers=preset)
    assert set(told_names(route)) == {name.lower().encode() for name in PRESETS[preset]}
    assert tells_person(route)
    assert not varies_by_request(route)


def test_the_routes_own_words_outrank_the_presets() -> None:
    route = make_route(identity_headers="remote-user", set_request_headers={"remote_user": "${claim.email}", "Remote-Name": "nobody"})
    assert told_templates(route)["remote_user"] == (Variable("claim.email"),)
    assert set(told_templates(route)) == {"remote_user", "Remote-Email", "Remote-Groups"}
    assert set(told_names(route)) == {b"remote_user", b"remote-user", b"remote-name", b"remote-email", b"remote-groups"}


@pytest.mark.parametrize(
    ("keys", "tells", "signs", "varies"),
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
def test_what_is_told(keys: dict[str, Any], tells: bool, signs: bool, varies: bool) -> None:
    route = make_route(**keys)
    assert (tells_person(route), sends_assertion(route), varies_by_request(route)) == (tells, signs, varies)


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
def test_what_can_not_be_told_is_an_error(tmp_path: Path, keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        make_options(tmp_path, policy=[{"from": "https://app.example.com", "to": "http://up", **keys}])
