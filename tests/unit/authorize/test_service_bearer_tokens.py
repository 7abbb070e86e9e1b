"""A provider's token allows the users of the policy, on routes that accept it, and none if it cannot be verified."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from authorize.authorizer import AuthorizationResult
from authorize.policy.decision import Outcome
from authorize.service import AuthorizeService
from databroker.records import DIRECTORY_USER, DirectoryUser, SessionRecord, UserRecord
from foundation.auth_challenges import InvalidToken
from foundation.crypto.session_cookie import SessionCookies
from foundation.crypto.signing_key import SigningKey
from foundation.errors import BrokerError, ProviderError
from tests.support.cookies import signed_in
from tests.support.options import make_options
from tests.unit.authorize.broker import ISSUER, BreakableBroker, followed_broker, settled
from tests.unit.authorize.builders import request

NOW = 1500.0
APP = {"from": "https://app.example.com", "to": "http://up", "pass_identity_headers": True}
POLICY = [
    {**APP, "prefix": "/group", "allowed_groups": ["g1"], "bearer_token": "idp_id_token"},
    {**APP, "prefix": "/mail", "allowed_users": ["ann@corp.com"], "bearer_token": "idp_id_token"},
    {**APP, "prefix": "/claim", "allowed_idp_claims": {"repository": ["a/b"]}, "bearer_token": "idp_id_token"},
    {**APP, "allow_any_authenticated_user": True},
]


@dataclass
class VerifiedSession:
    session: SessionRecord
    user: UserRecord


@dataclass
class Known:
    """A verifier that knows one token."""

    token: str = "good.to.ken"
    claims: dict = field(default_factory=lambda: {"email_verified": True, "repository": "a/b"})
    is_away: bool = False
    calls: list[tuple[str, str]] = field(default_factory=list)
    session: VerifiedSession | None = None
    client_address: str = ""

    async def verify(self, route_id: str, token: str, client_address: str = "") -> VerifiedSession | InvalidToken:
        self.calls.append((route_id, token))
        self.client_address = client_address
        if self.is_away:
            raise ProviderError("away")
        if token != self.token:
            return InvalidToken("idp_id_token: another audience")
        if self.session is None:
            session = SessionRecord("bearer/1", "oidc/1", "1", "oidc", 1000.0, 2000.0, self.claims, issuer=ISSUER)
            self.session = VerifiedSession(
                session, UserRecord("oidc/1", "ann@corp.com", self.claims.get("email_verified"), "Ann", self.claims)
            )
        return self.session


@dataclass
class World:
    service: AuthorizeService
    broker: BreakableBroker
    known: Known
    cookies: SessionCookies

    async def check(self, path: str, *values: str, cookie: bytes = b"") -> AuthorizationResult:
        headers = [(b"authorization", value.encode()) for value in values]
        return await self.service.check(request(path, headers=headers, source_ip="192.0.2.7"), [cookie] if cookie else [])


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    options = make_options(tmp_path, policy=POLICY)
    async with followed_broker() as (broker, replica):
        known = Known()
        service = AuthorizeService(options, replica, SigningKey.from_options(options), clock=lambda: NOW, bearers=known)
        yield World(service, broker, known, SessionCookies(options))


async def test_bearer_tokens_are_authorized_by_policy(world: World) -> None:
    authorization = await world.check("/group", "Bearer good.to.ken")
    assert authorization.decision.outcome is Outcome.FORBIDDEN
    await world.broker.join("oidc/1", "g1")
    await settled()
    for path in ("/group", "/mail", "/claim"):
        authorization = await world.check(path, "bearer good.to.ken")
        assert authorization.decision.outcome is Outcome.ALLOWED, path
        assert authorization.identity is not None
        assert (authorization.identity.user_id, authorization.identity.has_oauth_token, authorization.challenge) == ("oidc/1", True, "")
        assert [name for name, _ in authorization.identity_headers] == [b"x-gate-jwt-assertion"]
    again = await world.check("/claim", "Bearer good.to.ken")
    assert again.identity is authorization.identity, "what is signed of it is kept"
    assert world.known.client_address == "192.0.2.7"


async def test_an_unverified_address_counts_for_nothing(world: World) -> None:
    world.known.claims = {"email_verified": False}
    assert (await world.check("/mail", "Bearer good.to.ken")).decision.outcome is Outcome.FORBIDDEN


async def test_deactivated_user_is_rejected_immediately(world: World) -> None:
    assert (await world.check("/mail", "Bearer good.to.ken")).decision.outcome is Outcome.ALLOWED
    for is_deactivated, issuer, outcome in (
        (True, "", Outcome.SIGN_IN),
        (False, "", Outcome.ALLOWED),
        (True, ISSUER, Outcome.SIGN_IN),
        (True, "https://other.example", Outcome.ALLOWED),
    ):
        directory_user = DirectoryUser("oidc/1", is_deactivated=is_deactivated, issuer=issuer)
        await world.broker.put(DIRECTORY_USER, "oidc/1", directory_user.to_data())
        await settled()
        assert (await world.check("/mail", "Bearer good.to.ken")).decision.outcome is outcome


async def test_a_refused_token_is_challenged(world: World) -> None:
    for value in ("Bearer bad.to.ken", "Bearer x", "bearer  good.to.kenx"):
        authorization = await world.check("/mail", value)
        assert (authorization.decision.outcome, authorization.identity) == (Outcome.SIGN_IN, None)
        assert 'error="invalid_token"' in authorization.challenge
    for value in ("Basic good.to.ken", "Gate good.to.ken", "good.to.ken"):
        assert (await world.check("/mail", value)).challenge == ""
    assert (await world.check("/mail")).challenge == ""
    assert (await world.check("/mail", "Bearer good.to.ken", "Bearer good.to.ken")).identity is None


async def test_route_without_bearer_tokens_verifies_none(world: World) -> None:
    authorization = await world.check("/", "Bearer good.to.ken")
    assert (authorization.decision.outcome, authorization.identity, authorization.challenge) == (Outcome.SIGN_IN, None, "")
    assert world.known.calls == []


async def test_authorization_of_signed_in_browser_is_forwarded(world: World) -> None:
    await world.broker.sign_in()
    await settled()
    cookie = signed_in(world.cookies, "s1", "app.example.com", issued=1000.0, expires=2000.0).encode()
    authorization = await world.check("/mail", "Bearer of.the.application", cookie=cookie)
    assert authorization.decision.outcome is Outcome.ALLOWED
    assert authorization.identity is not None
    assert not authorization.identity.has_oauth_token
    assert world.known.calls == []


async def test_unverifiable_token_raises(world: World) -> None:
    world.known.is_away = True
    with pytest.raises(BrokerError):
        await world.check("/mail", "Bearer good.to.ken")


@pytest.mark.parametrize(("expires", "claims"), [(NOW, {}), (2000.0, "no map")], ids=["ended meanwhile", "malformed claims"])
async def test_token_without_active_session_is_rejected(world: World, expires: float, claims: object) -> None:
    session = SessionRecord("bearer/1", "oidc/1", "1", "oidc", 1000.0, expires, claims)
    world.known.session = VerifiedSession(session, UserRecord("oidc/1", "ann@corp.com"))
    assert (await world.check("/mail", "Bearer good.to.ken")).decision.outcome is Outcome.SIGN_IN


async def test_external_token_has_no_directory_record(world: World) -> None:
    named = "https://ci.example.com#1"
    await world.broker.put(DIRECTORY_USER, named, DirectoryUser(named, "ann@corp.com", "Ann", ("g1",)).to_data())
    claims = {"iss": "https://ci.example.com", "email": "ann@corp.com", "email_verified": True, "groups": ["g1"], "repository": "a/b"}
    world.known.session = VerifiedSession(
        SessionRecord("bearer/1", named, "1", "jwt", 1000.0, 2000.0, claims), UserRecord(named, "ann@corp.com", True, "", claims)
    )
    for path, outcome in (("/group", Outcome.FORBIDDEN), ("/mail", Outcome.FORBIDDEN), ("/claim", Outcome.ALLOWED)):
        authorization = await world.check(path, "Bearer good.to.ken")
        assert authorization.decision.outcome is outcome, path
        assert authorization.identity is not None
        assert (authorization.identity.groups, authorization.identity.email, authorization.identity.directory_email) == ((), "", "")


async def test_process_without_verifier_raises(tmp_path: Path, world: World) -> None:
    options = make_options(tmp_path, policy=POLICY)
    async with followed_broker() as (_, replica):
        service = AuthorizeService(options, replica, SigningKey.from_options(options), clock=lambda: NOW)
        with pytest.raises(BrokerError):
            await service.check(request("/mail", headers=[(b"authorization", b"Bearer good.to.ken")]), [])
