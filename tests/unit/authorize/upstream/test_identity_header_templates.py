"""Headers of a route's templates: unknown values are omitted, and no user can pass for another."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorize.policy.compiled_route import compile_route
from authorize.policy.identity import Identity
from authorize.policy.policy_request import ClientCertificate
from authorize.upstream.identity_header_templates import header_value
from authorize.upstream.identity_headers import IdentityHeaders
from foundation.claim_values import ListedValues
from foundation.crypto.signing_key import SigningKey
from foundation.errors import NoIdentity
from tests.support.options import make_options
from tests.unit.authorize.builders import make_route, request, user

NOW = 1500.0
FOREIGN = user(
    "",
    user_id="https://ci.example.com#alice",
    subject="alice",
    provider="jwt",
    claims={"preferred_username": ("alice",), "email": ("a@b",)},
)


def rendered_headers(
    tmp_path: Path, identity: Identity | None, /, *, certificate: ClientCertificate | None = None, **keys: Any
) -> dict[str, str]:
    made = IdentityHeaders(make_options(tmp_path), SigningKey.from_options(make_options(tmp_path)))
    route = compile_route(make_route(**keys), "policy[0]")
    incoming = request("/", client_certificate=certificate)
    first = made.headers_for(incoming, route, identity, NOW, "one")
    assert [name for name, _ in made.headers_for(incoming, route, identity, NOW, "two")] == [name for name, _ in first]
    return {name.decode(): value.decode() for name, value in first}


def test_preset_omits_unknown_values(tmp_path: Path) -> None:
    identity = user(groups=("g1", "Sales, EU"), claims={"preferred_username": ("ann",)})
    assert rendered_headers(tmp_path, identity, identity_headers="remote-user") == {
        "remote-user": "oidc/1",
        "remote-email": "ann@corp.com",
        "remote-groups": "g1,Sales%2C EU",
    }
    assert rendered_headers(tmp_path, user("", verified_email=""), identity_headers="remote-user") == {"remote-user": "oidc/1"}
    from_claim = {"identity_headers": "remote-user", "set_request_headers": {"Remote-User": "${claim.preferred_username}"}}
    assert rendered_headers(tmp_path, identity, **from_claim)["remote-user"] == "ann"
    assert rendered_headers(tmp_path, None, identity_headers="remote-user") == {}


def test_external_identity_has_only_id_and_assertion(tmp_path: Path) -> None:
    """An application would take their name for one of our people's."""
    assert rendered_headers(tmp_path, FOREIGN, identity_headers="oauth2-proxy") == {}
    assert rendered_headers(tmp_path, FOREIGN, identity_headers="remote-user") == {"remote-user": "https://ci.example.com#alice"}
    assert rendered_headers(tmp_path, FOREIGN, set_request_headers={"X-User": "${user}"}) == {"x-user": "https://ci.example.com#alice"}
    account = user("", user_id="service_account/alice", subject="alice", provider="service_account")
    assert "x-forwarded-user" not in rendered_headers(tmp_path, account, identity_headers="oauth2-proxy")


@pytest.mark.parametrize("empty", [("",), [""], ""])
def test_an_empty_claim_is_none(tmp_path: Path, empty: Any) -> None:
    """An application may treat an empty name as internal, or as its first account."""
    identity = user(claims={"preferred_username": empty})
    assert "x-forwarded-preferred-username" not in rendered_headers(tmp_path, identity, identity_headers="oauth2-proxy")
    with pytest.raises(NoIdentity):
        rendered_headers(tmp_path, identity, set_request_headers={"Authorization": "App ${claim.preferred_username}"})


def test_a_claim_never_ends_its_header(tmp_path: Path) -> None:
    evil = user(claims={"team": ("a\r\nX-Admin: 1",), "name": ("J\u00fcrgen",)})
    found = rendered_headers(tmp_path, evil, set_request_headers={"X-Team": "team=${claim.team}; ${user}"})
    assert found == {"x-team": "team=a%0D%0AX-Admin: 1; oidc/1"}


def test_authorization_in_nobodys_name_is_refused(tmp_path: Path) -> None:
    keys = {"set_request_headers": {"Authorization": "App ${claim.key}"}}
    assert rendered_headers(tmp_path, user(claims={"key": ("k1",)}), **keys) == {"authorization": "App k1"}
    for identity_ in (user(), None):
        with pytest.raises(NoIdentity, match=r"claim\.key"):
            rendered_headers(tmp_path, identity_, **keys)


def test_request_variables_are_rendered_per_request(tmp_path: Path) -> None:
    made = IdentityHeaders(make_options(tmp_path), SigningKey.from_options(make_options(tmp_path)))
    keys = {"X-Trace": "${user}/${request_id}", "X-Certificate": "${client_certificate.fingerprint}", "X-User": "${user}"}
    route, identity = compile_route(make_route(set_request_headers=keys), "policy[0]"), user()
    incoming = request("/", client_certificate=ClientCertificate("f1", "spki", "CN=x"))
    assert made.headers_for(request("/"), route, identity, NOW, "r1") == ((b"x-user", b"oidc/1"), (b"x-trace", b"oidc/1/r1"))
    assert dict(made.headers_for(incoming, route, identity, NOW, "r2")) == {
        b"x-user": b"oidc/1",
        b"x-trace": b"oidc/1/r2",
        b"x-certificate": b"f1",
    }


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain text, 100% of it", b"plain text, 100% of it"),
        ("a\r\nX-Admin: 1", b"a%0D%0AX-Admin: 1"),
        ("a\x00b", b"a%00b"),
        ("Zoë", b"Zo%C3%AB"),
        ("50% Zoë", b"50%25 Zo%C3%AB"),
        ("a\x85b", b"a%C2%85b"),
        ("a\u2028b", b"a%E2%80%A8b"),
        ("\ud800", b"?"),
        (" admin", b"%20admin"),
        ("admin  ", b"admin%20%20"),
        ("  ", b"%20%20"),
        (" Zoë ", b"%20Zo%C3%AB%20"),
        (["a", " b", "c d "], b"a,%20b,c d%20"),
        (["a", "b"], b"a,b"),
        (["sales,admin", "x"], b"sales%2Cadmin,x"),
        (["sales,admin"], b"sales%2Cadmin"),
        (ListedValues(("sales,admin", "x")), b"sales%2Cadmin,x"),
        (ListedValues(("sales,admin",)), b"sales%2Cadmin"),
        (("Doe, Jane",), b"Doe, Jane"),
        (True, b"true"),
        (False, b"false"),
        (3, b"3"),
        (1.5, b"1.5"),
        (ListedValues((True, 1)), b"true,1"),
    ],
)
def test_a_value_is_one_line_of_ascii(value: Any, written: bytes) -> None:
    assert header_value(value) == written


@given(st.one_of(st.text(), st.lists(st.text()), st.tuples(st.text(), st.integers())))
def test_no_value_ends_its_header(value: Any) -> None:
    assert all(0x20 <= byte < 0x7F for byte in header_value(value))
