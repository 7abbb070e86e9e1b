"""From cookies to a decision."""

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest

from authorize.policy.decision import Outcome
from authorize.service import AuthorizeService
from databroker.records import SERVICE_ACCOUNT, SESSION, ServiceAccountRecord
from databroker.replica import Replica
from foundation.crypto.programmatic import ProgrammaticTokens
from foundation.crypto.service_account_token import hash_token, new_token
from foundation.crypto.session_cookie import SessionCookies
from foundation.crypto.signing_key import SigningKey
from foundation.errors import BadRequest, BrokerError, ConfigError
from tests.support.cookies import signed_in
from tests.support.options import make_options
from tests.unit.authorize.broker import ISSUER, BreakableBroker, followed_broker, settled
from tests.unit.authorize.builders import request, user

NOW = 1500.0
ROUTES = [
    {"from": "https://app.example.com", "to": "http://up", "prefix": "/public", "allow_public_unauthenticated_access": True},
    {
        "from": "https://app.example.com",
        "to": "http://up",
        "prefix": "/told",
        "allow_public_unauthenticated_access": True,
        "pass_identity_headers": True,
    },
    {
        "from": "https://app.example.com",
        "to": "http://up",
        "prefix": "/bob",
        "allowed_users": ["bob@corp.com"],
        "pass_identity_headers": True,
    },
    {
        "from": "https://app.example.com",
        "to": "http://up",
        "allowed_domains": ["corp.com"],
        "pass_identity_headers": True,
        "cors_allow_preflight": True,
    },
    {"from": "https://other.example.com", "to": "http://up", "allow_any_authenticated_user": True},
    {
        "from": "https://app.example.com",
        "to": "http://up",
        "prefix": "/ci",
        "allowed_users": ["service_account/ci"],
        "pass_identity_headers": True,
    },
]
# The longer prefix first: the first match decides.
ROUTES.sort(key=lambda route: "prefix" not in route)


@dataclass
class World:
    broker: BreakableBroker
    replica: Replica
    service: AuthorizeService
    cookies: SessionCookies
    tokens: ProgrammaticTokens

    def value(self, session_id: str = "s1", host_port: str = "app.example.com", expires: float = 2000.0) -> str:
        return self.cookies.seal(session_id, host_port, 1000.0, expires)

    def cookie(self, session_id: str = "s1", host_port: str = "app.example.com", expires: float = 2000.0) -> str:
        """With its binding cookie."""
        return signed_in(self.cookies, session_id, host_port, issued=1000.0, expires=expires)

    async def outcome(self, target: str = "/", *sent: str, host: str = "app.example.com", **facts: Any) -> Outcome:
        headers = ["; ".join(sent).encode()] if sent else []
        return (await self.service.check(request(target, host, **facts), headers)).decision.outcome


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    options = make_options(tmp_path, policy=ROUTES, jwt_claims_headers=["email"])
    async with followed_broker() as (broker, replica):
        service = AuthorizeService(options, replica, SigningKey.from_options(options), clock=lambda: NOW)
        await broker.sign_in()
        await settled()
        yield World(broker, replica, service, SessionCookies(options), ProgrammaticTokens(options))


async def test_session_of_host_is_accepted(world: World) -> None:
    authorization = await world.service.check(request(), [f"a=b; {world.cookie()}".encode()])
    assert authorization.decision.outcome is Outcome.ALLOWED
    assert authorization.identity is not None
    assert authorization.identity.user_id == "oidc/1"
    assert [name for name, _ in authorization.identity_headers] == [b"x-gate-jwt-assertion", b"x-gate-claim-email"]


async def test_denied_user_has_no_attestation(world: World) -> None:
    authorization = await world.service.check(request("/bob"), [world.cookie().encode()])
    assert (authorization.decision.outcome, authorization.identity_headers) == (Outcome.FORBIDDEN, ())
    assert authorization.identity is not None


async def test_preflight_has_no_identity_headers(world: World) -> None:
    facts = {"method": "OPTIONS", "origin": b"https://o.example", "access_control_request_method": b"PUT"}
    authorization = await world.service.check(request("/", **facts), [world.cookie().encode()])
    assert authorization.decision.is_preflight
    assert authorization.identity_headers == ()
    authorization = await world.service.check(request("/", method="OPTIONS"), [world.cookie().encode()])
    assert not authorization.decision.is_preflight
    assert authorization.identity_headers != ()


async def test_anonymous_caller_is_prompted_to_sign_in(world: World) -> None:
    assert await world.outcome("/") is Outcome.SIGN_IN
    assert await world.outcome("/public") is Outcome.ALLOWED
    assert await world.outcome("/", host="unknown.example.com") is Outcome.NO_ROUTE


async def test_a_cookie_is_no_session_at_another_host_or_port(world: World) -> None:
    value = world.cookie(host_port="other.example.com")
    assert await world.outcome("/", value) is Outcome.SIGN_IN
    assert await world.outcome("/", value, host="other.example.com") is Outcome.ALLOWED
    assert await world.outcome("/", world.cookie(host_port="app.example.com:8443")) is Outcome.SIGN_IN


@pytest.mark.parametrize("change", ["tampered", "truncated", "expired", "unknown session", "empty", "garbage"])
async def test_cookie_without_active_session_is_ignored(world: World, change: str) -> None:
    valid, cookie = world.value(), world.cookie()
    values = {
        "tampered": valid[:-1] + ("A" if valid[-1] != "A" else "Q"), "truncated": valid[:-4], "expired": world.value(expires=NOW),
        "unknown session": world.value("s2"), "empty": "", "garbage": "x" * 200,
    }  # fmt: skip
    for binding in (cookie.partition("; ")[2], world.cookie("s2").partition("; ")[2]):
        assert await world.outcome("/", f"_gate={values[change]}", binding) is Outcome.SIGN_IN
    assert await world.outcome("/", f"_gate={values[change]}", cookie) is Outcome.ALLOWED


async def test_a_cookie_key_that_is_taken_out_of_the_list_opens_nothing_after_the_reload(tmp_path: Path) -> None:
    old, new = (base64.b64encode(bytes(range(start, start + 32))).decode() for start in (1, 101))
    async with followed_broker() as (broker, replica):
        await broker.sign_in()
        before, value, outcomes = None, "", []
        for keys in ([old], [new, old], [new]):
            options = make_options(tmp_path, policy=ROUTES, cookie_secret=keys)
            service = AuthorizeService(options, replica, SigningKey.from_options(options), clock=lambda: NOW, previous=before)
            value = value or signed_in(SessionCookies(options), "s1", "app.example.com", issued=1000.0, expires=2000.0)
            outcomes += [(await service.check(request(), [value.encode()])).decision.outcome for _ in range(2)]
            before = service
    assert outcomes == [Outcome.ALLOWED] * 4 + [Outcome.SIGN_IN] * 2


async def test_a_planted_cookie_never_hides_the_real_one(world: World) -> None:
    await world.broker.sign_in("s2", "oidc/2", email="bob@corp.com")
    planted = ["", "x", "x" * 4000, world.value("ended"), world.value(host_port="evil.example.com"), world.value("s2")]
    for position in range(len(planted) + 1):
        values = [f"_gate={value}" for value in planted]
        assert await world.outcome("/", *values[:position], world.cookie(), *values[position:]) is Outcome.ALLOWED


async def test_planted_session_without_binding_cookie_is_ignored(world: World) -> None:
    """The attacker has a binding cookie in another browser, and cannot set it in this one."""
    await world.broker.sign_in("s2", "oidc/2", email="bob@corp.com")
    planted, own = f"_gate={world.value('s2')}", world.cookie()
    for sent in ([planted], [planted, own], [own, planted]):
        expected = Outcome.SIGN_IN if sent == [planted] else Outcome.FORBIDDEN
        assert await world.outcome("/bob", *sent) is expected
    for binding in (own, world.cookie("s2", "other.example.com"), "__Host-_gate=", "__Host-_gate=\xff"):
        assert await world.outcome("/bob", planted, binding.rpartition("; ")[2]) is Outcome.SIGN_IN
    assert await world.outcome("/bob", world.cookie("s2")) is Outcome.ALLOWED


async def test_without_binding_cookies_two_living_sessions_are_none(tmp_path: Path) -> None:
    options = make_options(tmp_path, policy=ROUTES, cookie_secure=False)
    cookies = SessionCookies(options)
    one, again, two = (f"_gate={cookies.seal(id, 'app.example.com', 1000.0, 2000.0)}" for id in ("s1", "s1", "s2"))
    async with followed_broker() as (broker, replica):
        service = AuthorizeService(options, replica, SigningKey.from_options(options), clock=lambda: NOW)
        await broker.sign_in()
        await broker.sign_in("s2", "oidc/2", email="bob@corp.com")
        await settled()

        async def outcome(*sent: str) -> Outcome:
            return (await service.check(request("/"), ["; ".join(sent).encode()])).decision.outcome

        assert [await outcome(one), await outcome(one, again), await outcome(two)] == [Outcome.ALLOWED] * 3
        assert [await outcome(one, two), await outcome(two, again, one)] == [Outcome.SIGN_IN] * 2
        await broker.delete(SESSION, "s2")
        await settled()
        assert await outcome(two, one) is Outcome.ALLOWED


async def test_a_session_that_ended_is_refused(world: World) -> None:
    value = world.cookie()
    assert await world.outcome("/", value) is Outcome.ALLOWED
    await world.broker.delete(SESSION, "s1")
    await settled()
    assert await world.outcome("/", value) is Outcome.SIGN_IN


async def test_public_routes_work_while_the_broker_is_down(world: World) -> None:
    world.broker.is_down = True
    value = world.cookie()
    assert await world.outcome("/public", value) is Outcome.ALLOWED
    assert await world.outcome("/told", value) is Outcome.ALLOWED
    facts = {"method": "OPTIONS", "origin": b"https://o.example", "access_control_request_method": b"PUT"}
    assert await world.outcome("/", value, **facts) is Outcome.ALLOWED
    with pytest.raises(BrokerError):
        await world.outcome("/", value)
    assert await world.outcome("/", f"_gate={'x' * 100}") is Outcome.SIGN_IN


async def test_public_route_attests_signed_in_user_if_it_passes_identity(world: World) -> None:
    cookie = [world.cookie().encode()]
    attested, untold = await world.service.check(request("/told"), cookie), await world.service.check(request("/public"), cookie)
    assert attested.identity is not None
    assert b"x-gate-claim-email" in dict(attested.identity_headers)
    assert (untold.identity, untold.identity_headers) == (None, ())


async def test_signed_in_user_can_be_checked_without_route(world: World) -> None:
    cookie = [world.cookie(host_port="auth.example.com").encode()]
    found = await world.service.identify(cookie, "auth.example.com")
    assert found is not None
    assert found.session_id == "s1"
    assert await world.service.identify(cookie, "app.example.com") is None


async def test_a_known_session_is_decided_without_waiting(world: World) -> None:
    cookie = [world.cookie().encode()]
    await world.service.check(request(), cookie)
    with pytest.raises(StopIteration):
        world.service.check(request(), cookie).send(None)


async def test_a_path_with_two_readings_is_the_clients_mistake(world: World) -> None:
    with pytest.raises(BadRequest):
        await world.outcome("//bob")


async def test_routes_that_can_not_be_compiled_build_no_service(world: World, tmp_path: Path) -> None:
    options = make_options(
        tmp_path, policy=[{"from": "https://a.example.com", "to": "http://up", "prefix": "/..;/", "allow_any_authenticated_user": True}]
    )
    with pytest.raises(ConfigError):
        AuthorizeService(options, world.replica, SigningKey.from_options(options))


@pytest.mark.parametrize(
    ("origin", "is_own"),
    [
        ("https://app.example.com", True),
        ("https://APP.example.com:443", True),
        ("https://app.example.com:8443", False),
        ("http://app.example.com", False),
        ("https://evil.example.com", False),
        ("https://app.example.com.evil", False),
        ("https://app.example.com@evil.example", False),
        ("app.example.com", False),
        ("https://", False),
        ("https://äpp.example.com", False),
        ("null", False),
        ("", False),
    ],
)
async def test_only_pages_of_route_hosts_have_gate_origin(world: World, origin: str, is_own: bool) -> None:
    assert world.service.is_route_origin(origin) is is_own


async def test_only_a_public_route_is_public(world: World) -> None:
    assert world.service.is_public(request("/public/robots.txt"))
    assert not world.service.is_public(request("/robots.txt"))
    assert not world.service.is_public(request("/robots.txt", "unknown.example.com"))


async def test_only_listed_users_and_groups_administer(world: World, tmp_path: Path) -> None:
    assert not world.service.may_administer(user())
    options = make_options(tmp_path, admin_allowed_users=["ann@corp.com"], admin_allowed_groups=["g1"])
    service = AuthorizeService(options, world.replica, SigningKey.from_options(options))
    assert service.may_administer(user("ann@corp.com"))
    assert service.may_administer(user("x@x.org", group_ids=frozenset({"g1"})))
    assert not service.may_administer(user("x@x.org"))


def program_token(world: World, host_port: str = "app.example.com", session_id: str = "s1") -> str:
    return world.tokens.seal(session_id, host_port, 1000.0, 2000.0)


def requests_with_token(token: str) -> list[tuple[str, dict[str, Any]]]:
    """(target, facts) of each carrier."""
    return [
        ("/", {"headers": [(b"authorization", b"Gate " + token.encode())]}),
        ("/", {"headers": [(b"authorization", b"Bearer Gate-" + token.encode())]}),
        (f"/?a=b&gate_session={token}", {}),
    ]


async def test_programmatic_token_counts_in_each_carrier_at_its_host_only(world: World) -> None:
    for target, facts in requests_with_token(program_token(world)):
        assert await world.outcome(target, **facts) is Outcome.ALLOWED
        assert await world.outcome(target, host="other.example.com", **facts) is Outcome.SIGN_IN
    for target, facts in requests_with_token(program_token(world, "other.example.com")):
        assert await world.outcome(target, **facts) is Outcome.SIGN_IN


async def test_no_other_sealed_value_passes_for_programmatic_token(world: World) -> None:
    for target, facts in requests_with_token(world.value()):
        assert await world.outcome(target, **facts) is Outcome.SIGN_IN
    assert await world.outcome("/", program_token(world)) is Outcome.SIGN_IN


async def test_programmatic_token_ends_with_session(world: World) -> None:
    token = program_token(world)
    await world.broker.delete(SESSION, "s1")
    await settled()
    for target, facts in requests_with_token(token):
        assert await world.outcome(target, **facts) is Outcome.SIGN_IN


async def test_the_end_of_a_session_is_known_also_where_there_are_several_providers(tmp_path: Path) -> None:
    """Streams end at this time even if the identity cannot be loaded."""
    entry = {"provider": "oidc", "client_id": "gate", "client_secret": "secret", "domains": ["corp.com"]}
    urls = {"oidc": ISSUER, "partner": "https://idp.partner.example"}
    one = dict.fromkeys(("idp_provider", "idp_provider_url", "idp_client_id", "idp_client_secret"))
    routes = [{"from": "https://app.example.com", "to": "http://up", "allow_any_authenticated_user": True, "pass_identity_headers": True}]
    options = make_options(tmp_path, **one, policy=routes, identity_providers=[{**entry, "id": id, "url": url} for id, url in urls.items()])
    async with followed_broker() as (broker, replica):
        service = AuthorizeService(options, replica, SigningKey.from_options(options), clock=lambda: NOW)
        await broker.sign_in()
        await settled()
        authorization = await service.check(
            request("/"), [signed_in(SessionCookies(options), "s1", "app.example.com", issued=1000.0, expires=2000.0).encode()]
        )
    assert (authorization.decision.outcome, authorization.valid_until) == (Outcome.ALLOWED, 2000.0)


async def test_a_browser_s_session_outranks_a_token(world: World) -> None:
    await world.broker.sign_in("s2", "oidc/2", email="bob@corp.com")
    await settled()
    for _, facts in requests_with_token(program_token(world, session_id="s2")):
        assert await world.outcome("/bob", world.cookie("s1"), **facts) is Outcome.FORBIDDEN
    assert await world.outcome(f"/bob?gate_session={program_token(world, session_id='s2')}", "junk" * 30) is Outcome.ALLOWED


async def test_token_allows_assertion_but_is_no_browser_session(world: World) -> None:
    incoming = request("/.gate/jwt", headers=[(b"authorization", b"Gate " + program_token(world).encode())])
    assert (await world.service.attest(incoming, [])).assertion
    assert await world.service.identify([], "app.example.com") is None


async def account(world: World, name: str = "ci", **facts: Any) -> str:
    token = new_token(name)
    account_record = ServiceAccountRecord(name, ("deployers",), 1000.0, 99_000.0, hash_token(token), **facts)
    await world.broker.put(SERVICE_ACCOUNT, name, account_record.to_data())
    await settled()
    return token


async def test_service_account_named_by_policy_is_admitted_and_sent_to_upstream(world: World) -> None:
    token = await account(world)
    for value in (f"Bearer {token}", f"Gate {token}", f"Bearer Gate-{token}"):
        headers = [(b"authorization", value.encode())]
        authorization = await world.service.check(request("/ci", headers=headers), [])
        assert (authorization.decision.outcome, authorization.challenge) == (Outcome.ALLOWED, "")
        claims = jwt.decode(dict(authorization.identity_headers)[b"x-gate-jwt-assertion"], options={"verify_signature": False})
        assert (claims["sub"], claims["groups"], claims["exp"]) == ("service_account/ci", ["deployers"], NOW + 3600)
        assert await world.outcome("/", headers=headers) is Outcome.FORBIDDEN
        assert await world.outcome("/", host="other.example.com", headers=headers) is Outcome.ALLOWED


async def test_a_service_account_s_secret_counts_in_no_url_and_no_cookie(world: World) -> None:
    token = await account(world)
    assert await world.outcome(f"/ci?gate_session={token}") is Outcome.SIGN_IN
    assert await world.outcome("/ci", token) is Outcome.SIGN_IN
    assert await world.outcome("/ci", headers=[(b"authorization", b"Basic " + token.encode())]) is Outcome.SIGN_IN


async def test_invalid_secret_gets_challenge(world: World) -> None:
    await account(world)
    for value in (new_token("ci"), new_token("nobody"), "gate_sa_", "gate_sa_ci_x"):
        authorization = await world.service.check(request("/ci", headers=[(b"authorization", b"Bearer " + value.encode())]), [])
        assert (authorization.decision.outcome, authorization.identity) == (Outcome.SIGN_IN, None)
        assert 'error="invalid_token"' in authorization.challenge
        public = await world.service.check(request("/public", headers=[(b"authorization", b"Bearer " + value.encode())]), [])
        assert (public.decision.outcome, public.challenge) == (Outcome.ALLOWED, "")
    for value in (b"Bearer other", b"Gate other", b"Basic eA=="):
        assert (await world.service.check(request("/ci", headers=[(b"authorization", value)]), [])).challenge == ""
