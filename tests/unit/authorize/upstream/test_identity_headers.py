"""Identity headers that an upstream receives, and that no client can add to them."""

import itertools
from pathlib import Path
from typing import Any

import jwt
import pytest
from structlog.testing import capture_logs

from authorize.policy.compiled_route import CompiledRoute, compile_route
from authorize.policy.identity import Identity
from authorize.upstream.identity_headers import ASSERTION, IdentityHeaders, header_name
from foundation.claim_values import ListedValues, NullValues, PartialValues
from foundation.crypto.signing_key import SigningKey
from foundation.errors import GateError
from tests.support.options import make_options
from tests.unit.authorize.builders import make_route, request, user

NOW = 1500.0
ROUTE = compile_route(make_route(pass_identity_headers=True), "policy[0]")
CLAIMS = ["email", "groups", "user", "name", "team", "level", "admin", "missing", "realm.role", "family_name"]


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey.from_options(make_options(tmp_path))


@pytest.fixture
def made(tmp_path: Path, key: SigningKey) -> IdentityHeaders:
    return IdentityHeaders(make_options(tmp_path, authenticate_service_url="https://auth.example.com:8443", jwt_claims_headers=CLAIMS), key)


def headers(
    made: IdentityHeaders, identity: Identity | None, *, host: str = "app.example.com", route: CompiledRoute = ROUTE
) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in made.headers_for(request("/", host), route, identity, NOW)}


def claims(key: SigningKey, token: str, audience: str = "app.example.com") -> dict[str, Any]:
    options = {"verify_exp": False}
    return jwt.decode(token, jwt.PyJWK(key.jwk()), algorithms=[key.algorithm], audience=audience, options=options)


def test_assertion_has_subject_audience_and_expiry(made: IdentityHeaders, key: SigningKey) -> None:
    token = headers(made, user(name="Ann", groups=("g1", "Sales"), directory_email="ann@directory.org"))[ASSERTION.decode()]
    assert claims(key, token) == {
        "iss": "auth.example.com:8443",
        "aud": "app.example.com",
        "jti": "s1",
        "iat": 1000,
        "exp": 2000,
        "sub": "oidc/1",
        "user": "oidc/1",
        "email": "ann@directory.org",
        "name": "Ann",
        "groups": ["g1", "Sales"],
    }


def test_without_a_directory_the_email_is_the_providers(made: IdentityHeaders, key: SigningKey) -> None:
    assert claims(key, headers(made, user())[ASSERTION.decode()])["email"] == "ann@corp.com"
    assert "email" not in claims(key, headers(made, user("", session_id="s2"))[ASSERTION.decode()])


def test_unverified_email_is_not_released(made: IdentityHeaders, key: SigningKey) -> None:
    """Upstreams trust the address as the user's, so gate omits an address that any user could have claimed."""
    sent = headers(made, user("ceo@corp.com", verified_email=""))
    assert "email" not in claims(key, sent[ASSERTION.decode()])
    assert "x-gate-claim-email" not in sent


def test_external_claims_are_not_released(tmp_path: Path, key: SigningKey) -> None:
    made = IdentityHeaders(make_options(tmp_path, jwt_claims_headers=[*CLAIMS, "roles"], groups_claim="roles"), key)
    external_claims = {"email": ("ceo@corp.com",), "name": ("CEO",), "groups": ("g1",), "roles": ("g1",), "team": ("ci",)}
    caller = user("", user_id="https://ci.example.com#bot", subject="bot", provider="jwt", claims=external_claims)
    sent = headers(made, caller)
    assert claims(key, sent.pop(ASSERTION.decode()))["sub"] == "https://ci.example.com#bot"
    assert sent == {"x-gate-claim-user": "https://ci.example.com#bot", "x-gate-claim-team": "ci"}


def test_anonymous_assertion_has_only_issuer_and_audience(made: IdentityHeaders, key: SigningKey) -> None:
    found = headers(made, None)
    assert claims(key, found.pop(ASSERTION.decode())) == {"iss": "auth.example.com:8443", "aud": "app.example.com"}
    assert found == {}


def test_claim_headers_contain_known_claims_only(made: IdentityHeaders) -> None:
    facts = {
        "team": ListedValues(("a", "b")),
        "level": (3,),
        "admin": (True,),
        "realm.role": ("x",),
        "family_name": ("Doe, Jr.",),
        "unasked": ("y",),
    }
    found = headers(made, user(name="Ann", groups=("g1", "Sales"), claims=facts))
    del found[ASSERTION.decode()]
    assert found == {
        "x-gate-claim-email": "ann@corp.com",
        "x-gate-claim-groups": "g1,Sales",
        "x-gate-claim-user": "oidc/1",
        "x-gate-claim-name": "Ann",
        "x-gate-claim-team": "a,b",
        "x-gate-claim-level": "3",
        "x-gate-claim-admin": "true",
        "x-gate-claim-realm.role": "x",
        "x-gate-claim-family_name": "Doe, Jr.",
    }


def test_list_of_one_escapes_comma_and_omits_unencodable_values(tmp_path: Path, key: SigningKey) -> None:
    claims = {"team": ListedValues(("sales,admin",)), "level": PartialValues(), "admin": NullValues(), r"a\.b": ("c",)}
    made = IdentityHeaders(make_options(tmp_path, jwt_claims_headers=["team", "level", "admin", r"a\.b"]), key)
    found = headers(made, user(claims=claims))
    assert {name: value for name, value in found.items() if name != ASSERTION.decode()} == {
        "x-gate-claim-team": "sales%2Cadmin",
        "x-gate-claim-a.b": "c",
    }
    own = make_route(prefix="/own", set_request_headers={"X-Team": "${claim.team}", "X-Level": "${claim.level}", "X-B": r"${claim.a\.b}"})
    assert headers(made, user(claims=claims), route=compile_route(own, "policy[1]")) == {"x-team": "sales%2Cadmin", "x-b": "c"}


def test_provider_claim_does_not_replace_attested_value(made: IdentityHeaders) -> None:
    found = headers(made, user(groups=("g1",), claims={"user": ("root",), "groups": ("admin",), "email": ("boss@corp.com",)}))
    assert [found[f"x-gate-claim-{name}"] for name in ("user", "groups", "email")] == ["oidc/1", "g1", "ann@corp.com"]


@pytest.mark.parametrize("claim", ["name", "given_name", "family_name", "middle_name", "nickname"])
def test_name_claims_never_equal_other_users_address_or_id(tmp_path: Path, key: SigningKey, claim: str) -> None:
    made = IdentityHeaders(make_options(tmp_path, jwt_claims_headers=[claim]), key)
    route = compile_route(make_route(pass_identity_headers=True, set_request_headers={"Remote-Name": f"${{claim.{claim}}}"}), "policy[0]")
    for number, (value, expected) in enumerate(
        {"Ann": "Ann", "ceo@corp.com": None, "ceo@corp.com (corp/ceo)": None, "x (corp/ceo)": None}.items()
    ):
        found = headers(made, user("", session_id=f"s{number}", claims={claim: (value,)}), route=route)
        assert (found.get(f"x-gate-claim-{claim}"), found.get("remote-name")) == (expected, expected)


def test_route_without_identity_headers_sends_none(made: IdentityHeaders) -> None:
    assert made.headers_for(request(), compile_route(make_route(), "policy[0]"), user(), NOW) == ()
    own = compile_route(make_route(prefix="/own", set_request_headers={"X-User": "${user}"}), "policy[1]")
    assert headers(made, user(), route=own) == {"x-user": "oidc/1"}


HOSTS = [f"h{number}.example.com" for number in range(5)] + [f"h{number}.example.com:8443" for number in range(5)]


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(HOSTS, 2)))
def test_an_assertion_for_one_host_is_refused_at_any_other(made: IdentityHeaders, key: SigningKey, first: str, second: str) -> None:
    caller = user()
    tokens = {host: headers(made, caller, host=host)[ASSERTION.decode()] for host in (first, second)}
    assert claims(key, tokens[first], first)["aud"] == first
    with pytest.raises(jwt.InvalidAudienceError):
        claims(key, tokens[first], second)


def test_an_assertion_is_signed_once_for_a_session_route_and_host(made: IdentityHeaders) -> None:
    caller = user()
    first = made.headers_for(request("/a"), ROUTE, caller, NOW)
    assert made.headers_for(request("/b"), ROUTE, caller, NOW) is first
    other_route = compile_route(make_route(pass_identity_headers=True, prefix="/b"), "policy[1]")
    others = [
        made.headers_for(request("/a", "app.example.com:8443"), ROUTE, caller, NOW),
        made.headers_for(request("/a"), other_route, caller, NOW),
        made.headers_for(request("/a"), ROUTE, user(session_id="s2"), NOW),
        made.headers_for(request("/a"), ROUTE, None, NOW),
    ]
    assert all(other is not first for other in others)


def test_changed_identity_is_not_served_from_cache(made: IdentityHeaders) -> None:
    headers(made, user(groups=("admin",)))
    assert "x-gate-claim-groups" not in headers(made, user())


def test_assertion_is_renewed_in_its_last_minute(made: IdentityHeaders) -> None:
    caller = user()
    first = made.headers_for(request(), ROUTE, caller, 1939.0)
    assert made.headers_for(request(), ROUTE, caller, 1939.9) is first
    assert made.headers_for(request(), ROUTE, caller, 1940.0) is not first


def test_the_cache_is_bounded(tmp_path: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("authorize.upstream.identity_headers.MAX_CACHED", 3)
    made = IdentityHeaders(make_options(tmp_path), key)
    for number in range(9):
        headers(made, user(session_id=str(number)))
    assert repr(made) == "<IdentityHeaders 3 cached>"


@pytest.mark.parametrize(
    ("claim", "name"),
    [
        ("email", b"x-gate-claim-email"),
        ("Given_Name", b"x-gate-claim-given_name"),
        ("https://x/role", b"x-gate-claim-https---x-role"),
        ("a\r\nb", b"x-gate-claim-a--b"),
        ("ä", b"x-gate-claim--"),
    ],
)
def test_a_claims_name_is_a_header_name(claim: str, name: bytes) -> None:
    assert header_name(claim) == name


def forged(key: SigningKey, change: str) -> str:
    token = key.sign({"aud": "app.example.com", "sub": "oidc/1"})
    head, body, signature = token.split(".")
    none = jwt.encode({"aud": "app.example.com"}, None, algorithm="none")
    hmac = jwt.encode({"aud": "app.example.com"}, key.public_key_base64(), algorithm="HS256")
    variants = {
        "none": none,
        "a MAC with the public key": hmac,
        "another body": f"{head}.{none.split('.')[1]}.{signature}",
        "no signature": f"{head}.{body}.",
        "r = s = 0": f"{head}.{body}." + "A" * 86,
        "two tokens": f"{head}.{body}.{signature}.{signature}",
    }
    return variants[change]


@pytest.mark.parametrize("change", ["none", "a MAC with the public key", "another body", "no signature", "r = s = 0", "two tokens"])
def test_documented_verifier_accepts_no_forged_assertion(key: SigningKey, change: str) -> None:
    with pytest.raises((jwt.InvalidTokenError, GateError)):
        claims(key, forged(key, change))


def released(tmp_path: Path, key: SigningKey, route: dict[str, Any], **settings: Any) -> tuple[Any, Any]:
    """The groups in the assertion, and in the header."""
    made = IdentityHeaders(make_options(tmp_path, jwt_claims_headers=["groups"], **settings), key)
    compiled = compile_route(make_route(pass_identity_headers=True, **route), "policy[0]")
    found = headers(made, user(groups=("g1", "g2", "Sales", "Staff")), route=compiled)
    return claims(key, found[ASSERTION.decode()])["groups"], found.get("x-gate-claim-groups")


@pytest.mark.parametrize(
    ("settings", "route", "groups"),
    [
        ({}, {}, ["g1", "g2", "Sales", "Staff"]),
        ({"jwt_groups_filter": ["g2", "Sales", "unknown"]}, {}, ["g2", "Sales"]),
        ({"jwt_groups_filter": []}, {}, []),
        ({"jwt_groups_filter": []}, {"allowed_groups": ["g1"]}, ["g1"]),
        ({"jwt_groups_filter": []}, {"policy": [{"allow": {"or": [{"groups": ["Staff"]}, {"groups": "g1"}]}}]}, ["g1", "Staff"]),
        ({"jwt_groups_filter": ["g2"]}, {"jwt_groups_filter": ["g1"]}, ["g1"]),
        ({}, {"jwt_groups_filter": ["Staff"]}, ["Staff"]),
    ],
    ids=str,
)
def test_a_filter_leaves_the_groups_that_the_upstream_needs(
    tmp_path: Path, key: SigningKey, settings: dict[str, Any], route: dict[str, Any], groups: list[str]
) -> None:
    assert released(tmp_path, key, route, **settings) == (groups, ",".join(groups) or None)


def test_own_assertion_uses_global_group_filter(tmp_path: Path, key: SigningKey) -> None:
    made = IdentityHeaders(make_options(tmp_path, jwt_groups_filter=["g1"]), key)
    assert claims(key, made.assertion(user(groups=("g1", "g2")), "app.example.com"))["groups"] == ["g1"]


def test_headers_beyond_8_kib_are_warned_of_once_a_session_and_route(made: IdentityHeaders) -> None:
    ann = user(groups=tuple(f"group-{number:03}-{'x' * 20}" for number in range(200)))
    with capture_logs() as logged:
        headers(made, ann)
        headers(made, ann)
        headers(made, user())
    (entry,) = logged
    assert entry["setting"] == "jwt_groups_filter"
    assert (entry["route"], entry["user_id"]) == (ROUTE.id, "oidc/1")
