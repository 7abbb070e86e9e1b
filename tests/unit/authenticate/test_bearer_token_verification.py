"""Accepted and refused bearer tokens (classes B13, B15; RFC 8725), against a provider with adjustable responses."""

import asyncio
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import jwt
import pytest

from authenticate import bearer_token_verification
from authenticate.bearer_token_verification import BearerSession, BearerTokens
from authenticate.provider.tokens import key_set
from foundation.auth_challenges import InvalidToken
from foundation.errors import ProviderError
from tests.support.eventually import eventually
from tests.support.fake_idp import (
    ABSENT,
    CLIENT_ID,
    EC_KEY,
    LOGOUT_EVENT,
    OTHER_RSA_KEY,
    RSA_KEY,
    Answer,
    FakeIdP,
    encoded,
    public_jwk,
    signed,
)
from tests.support.options import make_options

APP = {"from": "https://app.example.com", "to": "http://up"}
AUDIENCE = "api://app"


class World:
    def __init__(self, directory: Path, idp: FakeIdP, issuer: FakeIdP):
        (directory / "keys.json").write_text(json.dumps({"keys": [public_jwk(EC_KEY, "ES256", "fixed")]}))
        people = {"allowed_groups": ["engineering"]}
        foreign = {"bearer_token": "jwt", "bearer_token_audience": [AUDIENCE, "api://other"], "allowed_users": ["repo:a/b"]}
        routes = {
            "opaque": {**people, "bearer_token": "idp_access_token", "bearer_token_audience": "*"},
            "access": {**people, "bearer_token": "idp_access_token", "bearer_token_audience": AUDIENCE},
            "id": {**people, "bearer_token": "idp_id_token"},
            "jwt": {**foreign, "bearer_token_issuer": issuer.issuer},
            "url": {**foreign, "bearer_token_issuer": "https://ci.example.com", "bearer_token_jwks_url": f"{issuer.issuer}/jwks"},
            "file": {**foreign, "bearer_token_issuer": "https://ci.example.com", "bearer_token_jwks_file": "keys.json"},
            "none": people,
        }
        policy = [{**APP, "prefix": f"/{name}/", **keys} for name, keys in routes.items()]
        self.idp, self.issuer = idp, issuer
        self.now = time.time()
        self.refused = ""  # why the last token was
        options = make_options(directory, policy=policy, idp_provider_url=idp.issuer, idp_client_id=CLIENT_ID, groups_claim="groups")
        self.routes = dict(zip(routes, options.policy, strict=True))
        self.restart = lambda: setattr(self, "tokens", BearerTokens(options, self.clock))
        self.restart()

    def clock(self) -> float:
        """Two events never have the same time."""
        self.now += 1e-4
        return self.now

    async def ask(self, name: str, token: str, client_address: str = "") -> BearerSession | None:
        answer = await self.tokens.verify(self.routes[name].id, token, client_address)
        self.refused = answer.reason if isinstance(answer, InvalidToken) else ""
        return None if isinstance(answer, InvalidToken) else answer

    def token(
        self, idp: FakeIdP | None = None, *, header: dict[str, Any] | None = None, key: Any = None, algorithm: str = "RS256", **claims: Any
    ) -> str:
        """As the provider signs it; a claim or header of ABSENT is left out."""
        idp = idp or self.idp
        payload = {"iss": idp.issuer, "aud": CLIENT_ID, "sub": "alice", "iat": int(self.now), "exp": int(self.now) + 600, **claims}
        members = {"kid": idp.kid, "typ": "JWT", "alg": algorithm, **(header or {})}
        payload, members = ({name: value for name, value in each.items() if value is not ABSENT} for each in (payload, members))
        return signed(members, payload, key or idp.signing_key, algorithm)

    def access_token(self, **claims: Any) -> str:
        header = {"typ": "at+jwt", **claims.pop("header", {})}
        return self.token(header=header, **{"aud": AUDIENCE, "client_id": "ci", "scope": "read", **claims})

    def ci_token(self, **claims: Any) -> str:
        return self.token(self.issuer, **{"aud": AUDIENCE, "sub": "repo:a/b", **claims})


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    idp, issuer = await FakeIdP.started(), await FakeIdP.started()
    world = World(tmp_path, idp, issuer)
    yield world
    await world.tokens.close()
    await idp.stop()
    await issuer.stop()


async def test_id_token_identifies_the_user(world: World) -> None:
    bearer = await world.ask("id", world.token(email="alice@corp.example", email_verified=True, groups=["engineering"], nonce="any"))
    assert bearer is not None
    assert (bearer.user.id, bearer.user.email, bearer.user.email_verified) == ("oidc/alice", "alice@corp.example", True)
    assert (bearer.session.user_id, bearer.session.subject, bearer.session.provider) == ("oidc/alice", "alice", "oidc")
    assert bearer.session.claims["groups"] == ["engineering"]
    assert bearer.session.expires_at == int(world.now) + 600
    assert bearer.session.id.startswith("bearer/")
    assert bearer.session.issuer == world.idp.issuer


async def test_access_token_for_this_audience_identifies_the_user(world: World) -> None:
    for token in (world.access_token(), world.access_token(header={"typ": "JWT"}), world.access_token(aud=["x", AUDIENCE])):
        bearer = await world.ask("access", token)
        assert bearer is not None
        assert bearer.user.id == "oidc/alice"


async def test_userinfo_does_not_name_its_issuer(world: World) -> None:
    """Otherwise a user who can set a claim there would escape deactivation."""
    world.idp.bend.userinfo = {"iss": "https://other.example"}
    bearer = await world.ask("opaque", world.idp.signed_in("alice")["access_token"])
    assert bearer is not None
    assert (bearer.session.claims["iss"], bearer.session.effective_issuer) == ("https://other.example", world.idp.issuer)


async def test_opaque_access_token_identifies_user_of_userinfo(world: World) -> None:
    token = world.idp.signed_in("alice")["access_token"]
    first, second = await asyncio.gather(world.ask("opaque", token), world.ask("opaque", token))
    assert first is not None
    assert first is second
    assert first.user.email == "alice@corp.example"
    assert await world.ask("opaque", token) is first
    assert world.idp.count("/userinfo") == 1
    world.idp._access_tokens.clear()
    world.now += bearer_token_verification.CACHE_SECONDS
    assert await world.ask("opaque", token) is None, "withdrawn at the provider"
    assert await world.ask("opaque", token) is None
    assert world.idp.count("/userinfo") == 2, "a refusal is remembered, too"


@pytest.mark.parametrize("route", ["jwt", "url", "file"])
async def test_token_of_another_issuer_identifies_only_its_subject(world: World, route: str) -> None:
    facts: dict[str, Any] = {} if route == "jwt" else {"iss": "https://ci.example.com"}
    if route == "file":
        facts |= {"key": EC_KEY, "algorithm": "ES256", "header": {"kid": "fixed"}}
    bearer = await world.ask(route, world.ci_token(email="boss@corp.example", **facts))
    assert bearer is not None
    issuer = world.routes[route].bearer_token_issuer
    assert (bearer.user.id, bearer.session.subject, bearer.session.provider) == (f"{issuer}#repo:a/b", "repo:a/b", "jwt")
    assert bearer.user.email_verified is False, "only an issuer that says so vouches for an address"
    verified = await world.ask(route, world.ci_token(email="boss@corp.example", email_verified=True, **facts))
    assert verified is not None
    assert verified.user.email_verified is True
    assert (bearer.user.email, verified.user.email) == ("", ""), "another issuer's address is a claim, not the address of a user here"


@pytest.mark.parametrize("route", ["id", "access", "opaque", "jwt"])
@pytest.mark.parametrize(
    ("claims", "limit"), [({f"c{number}": 1 for number in range(1100)}, "members"), ({"a": [[[[[[[[1]]]]]]]]}, "levels")]
)
async def test_claims_beyond_limits_are_refused_from_any_sender(world: World, route: str, claims: dict[str, Any], limit: str) -> None:
    world.idp.bend.userinfo = claims
    made = {"id": world.token, "access": world.access_token, "jwt": world.ci_token}
    token = made[route](**claims) if route in made else world.idp.signed_in("alice")["access_token"]
    assert await world.ask(route, token) is None
    assert limit in world.refused


Bad = Callable[[World], str]


def hs256(world: World) -> str:
    pem = RSA_KEY.public_key().public_bytes(*_pem())
    body = world.token().rsplit(".", 1)[0].split(".")[1]
    head = encoded(json.dumps({"alg": "HS256", "typ": "JWT", "kid": world.idp.kid}).encode())
    return f"{head}.{body}.{encoded(jwt.get_algorithm_by_name('HS256').sign(f'{head}.{body}'.encode(), pem))}"


def _pem() -> tuple[Any, Any]:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return Encoding.PEM, PublicFormat.SubjectPublicKeyInfo


def unsigned(algorithm: str) -> Bad:
    return lambda world: encoded(json.dumps({"alg": algorithm, "typ": "JWT"}).encode()) + "." + world.token().split(".")[1] + "."


BAD_ID_TOKENS: dict[str, Bad] = {
    "none": unsigned("none"),
    "None": unsigned("None"),
    "empty alg": unsigned(""),
    "HS256 with the public key": hs256,
    "HS256 with the client secret": lambda world: jwt.encode(
        {"iss": world.idp.issuer, "aud": CLIENT_ID, "sub": "alice", "iat": int(world.now), "exp": int(world.now) + 60},
        "client-secret" * 4,
        "HS256",
    ),
    "another key": lambda world: world.token(key=OTHER_RSA_KEY),
    "an unknown key": lambda world: world.token(key=OTHER_RSA_KEY, header={"kid": "key-9"}),
    "jku": lambda world: world.token(key=OTHER_RSA_KEY, header={"jku": f"{world.issuer.issuer}/jwks"}),
    "its own key": lambda world: world.token(key=OTHER_RSA_KEY, header={"jwk": public_jwk(OTHER_RSA_KEY, "RS256", "key-1")}),
    "another algorithm": lambda world: world.token(header={"alg": "ES256"}),
    "PS256 in name": lambda world: world.token(header={"alg": "PS256"}),
    "crit": lambda world: world.token(header={"crit": ["x"]}),
    "b64": lambda world: world.token(header={"b64": False}),
    "zip": lambda world: world.token(header={"zip": "DEF"}),
    "kid no text": lambda world: world.token(header={"kid": 1}),
    "another issuer": lambda world: world.token(iss="https://evil.example"),
    "issuer and a slash": lambda world: world.token(iss=world.idp.issuer + "/"),
    "no issuer": lambda world: world.token(iss=ABSENT),
    "another audience": lambda world: world.token(aud="other"),
    "no audience": lambda world: world.token(aud=ABSENT),
    "audience a map": lambda world: world.token(aud={CLIENT_ID: 1}),
    "audience a part": lambda world: world.token(aud=f"{CLIENT_ID}-other"),
    "several audiences": lambda world: world.token(aud=[CLIENT_ID, "other"]),
    "another azp": lambda world: world.token(azp="other"),
    "expired": lambda world: world.token(exp=int(world.now) - 61),
    "no exp": lambda world: world.token(exp=ABSENT),
    "exp text": lambda world: world.token(exp=str(int(world.now) + 60)),
    "exp true": lambda world: world.token(exp=True),
    "exp 1e300": lambda world: world.token(exp=1e300),
    "exp negative": lambda world: world.token(exp=-1),
    "not yet": lambda world: world.token(nbf=int(world.now) + 120),
    "of the future": lambda world: world.token(iat=int(world.now) + 120),
    "no iat": lambda world: world.token(iat=ABSENT),
    "no subject": lambda world: world.token(sub=ABSENT),
    "empty subject": lambda world: world.token(sub=""),
    "subject a number": lambda world: world.token(sub=1),
    "subject with a line": lambda world: world.token(sub="a\nb"),
    "subject too long": lambda world: world.token(sub="a" * 256),
    "typ at+jwt": lambda world: world.token(header={"typ": "at+jwt"}),
    "typ logout+jwt": lambda world: world.token(header={"typ": "logout+jwt"}),
    "typ a number": lambda world: world.token(header={"typ": 1}),
    "a logout token": lambda world: world.idp.logout_token(sub="alice", header={"typ": "JWT"}),
    "a logout token with a nonce": lambda world: world.token(events={LOGOUT_EVENT: {}}, nonce="x"),
    "an access token": lambda world: world.token(scope="openid"),
    "an access token of Azure": lambda world: world.token(scp="openid"),
    "Keycloak's bearer": lambda world: world.token(typ="Bearer"),
    "Keycloak's refresh token": lambda world: world.token(typ="Refresh"),
    "signature cut": lambda world: world.token()[:-4],
    "no signature": lambda world: world.token().rpartition(".")[0] + ".",
    "padding": lambda world: world.token() + "==",
    "a line break": lambda world: world.token() + "\n",
    "four parts": lambda world: world.token() + ".x",
    "five parts": lambda world: "a.b.c.d.e" * 4,
    "not JSON": lambda world: "eyJhIjoxfQ.e30x.e30x",
    "twice a key": lambda world: encoded(b'{"alg":"RS256","alg":"none"}') + "." + ".".join(world.token().split(".")[1:]),
    "too large": lambda world: world.token(extra="x" * 65536),
    "short": lambda world: "x",
    "empty": lambda world: "",
    "another issuer's own": lambda world: world.token(world.issuer),
}


@pytest.mark.parametrize("bad", BAD_ID_TOKENS)
async def test_invalid_id_token_identifies_no_user(world: World, bad: str) -> None:
    assert await world.ask("id", BAD_ID_TOKENS[bad](world)) is None


BAD_ACCESS_TOKENS: dict[str, Bad] = {
    "an ID token": lambda world: world.token(nonce="x"),
    "an ID token for this audience": lambda world: world.token(aud=AUDIENCE, nonce="x"),
    "with at_hash": lambda world: world.token(aud=AUDIENCE, scope="x", at_hash="x"),
    "Keycloak's ID token": lambda world: world.token(aud=AUDIENCE, scope="x", typ="ID"),
    "nothing says so": lambda world: world.token(aud=AUDIENCE),
    "another audience": lambda world: world.access_token(aud="api://other"),
    "our client": lambda world: world.access_token(aud=CLIENT_ID),
    "no audience": lambda world: world.access_token(aud=ABSENT),
    "expired": lambda world: world.access_token(exp=int(world.now) - 61),
    "another key": lambda world: world.access_token(key=OTHER_RSA_KEY),
    "another issuer": lambda world: world.access_token(iss=world.issuer.issuer),
    "typ logout+jwt": lambda world: world.access_token(header={"typ": "logout+jwt"}),
    "an event": lambda world: world.access_token(events={}),
    "opaque": lambda world: world.idp.signed_in("alice")["access_token"],
}


@pytest.mark.parametrize("bad", BAD_ACCESS_TOKENS)
async def test_invalid_access_token_identifies_no_user(world: World, bad: str) -> None:
    assert await world.ask("access", BAD_ACCESS_TOKENS[bad](world)) is None


async def test_each_route_takes_its_own_kind_only(world: World) -> None:
    tokens = {
        "id": world.token(nonce="x"),
        "access": world.access_token(),
        "opaque": world.idp.signed_in("alice")["access_token"],
        "jwt": world.ci_token(),
    }
    for kind, token in tokens.items():
        assert [name for name in (*tokens, "url", "file", "none") if await world.ask(name, token) is not None] == [kind]


async def test_unconfirmed_userinfo_identifies_no_user(world: World) -> None:
    assert await world.ask("opaque", "made-up-token") is None
    token = world.idp.signed_in("alice")["access_token"]
    for bent in ({"sub": ABSENT}, {"sub": ""}, {"sub": 1}):
        world.idp.bend.userinfo = bent
        world.now += bearer_token_verification.CACHE_SECONDS
        assert await world.ask("opaque", token) is None


async def test_a_key_that_is_new_is_fetched_and_a_flood_of_unknown_ones_is_not(world: World) -> None:
    assert await world.ask("jwt", world.ci_token()) is not None
    world.issuer.signing_key, world.issuer.kid = OTHER_RSA_KEY, "key-2"
    assert await world.ask("jwt", world.ci_token()) is not None
    fetched = world.issuer.count("/jwks")
    for number in range(20):
        assert await world.ask("jwt", world.ci_token(key=RSA_KEY, header={"kid": f"made-up-{number}"})) is None
    assert world.issuer.count("/jwks") == fetched


async def test_token_for_another_audience_causes_no_issuer_request(world: World) -> None:
    assert await world.ask("jwt", world.ci_token(aud="other")) is None
    assert world.issuer.requests == []


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/jwks"])
async def test_unavailable_issuer_admits_no_user_and_is_no_rejection(world: World, path: str) -> None:
    world.issuer.bend.answers[path] = Answer(500)
    token = world.ci_token()
    with pytest.raises(ProviderError):
        await world.ask("jwt", token)
    del world.issuer.bend.answers[path]
    world.now += 3
    assert await world.ask("jwt", token) is not None


async def test_signed_userinfo_is_verified_for_a_bearer_token(world: World) -> None:
    world.idp.bend.signed_userinfo = {}
    bearer = await world.ask("opaque", world.idp.signed_in("alice")["access_token"])
    assert bearer is not None
    assert bearer.user.id == "oidc/alice"
    assert "aud" not in bearer.session.claims
    world.idp.bend.signed_userinfo = {"iss": "https://evil.example"}
    with pytest.raises(ProviderError, match="another issuer"):
        await world.ask("opaque", world.idp.signed_in("alice")["access_token"])


def userinfo_error(status: int, error: str, *, in_body: bool = False) -> Answer:
    """RFC 6750 3: in the challenge; some servers send it in the body."""
    challenge = {} if in_body else {"WWW-Authenticate": f'Bearer realm="idp", error="{error}", error_description="no \\"invalid_token\\""'}
    return Answer(status, json.dumps({"error": error} if in_body else {}).encode(), headers=challenge)


BAD_TOKEN = [
    userinfo_error(401, "invalid_token"),
    userinfo_error(403, "insufficient_scope"),
    userinfo_error(403, "invalid_token"),
    userinfo_error(400, "invalid_token"),
    userinfo_error(403, "insufficient_scope", in_body=True),
    userinfo_error(400, "invalid_token", in_body=True),
]
TROUBLE = [Answer(400), Answer(403), Answer(429), userinfo_error(400, "invalid_request"), userinfo_error(503, "invalid_token")]


@pytest.mark.parametrize("answer", BAD_TOKEN)
async def test_provider_error_about_token_is_the_token_s_fault(world: World, answer: Answer) -> None:
    token = world.idp.signed_in("alice")["access_token"]
    world.idp.bend.answers["/userinfo"] = answer
    assert await world.ask("opaque", token) is None


NONSENSE = [Answer(500), Answer(200, b"x" * 2_000_000), Answer(200, b"<html>"), Answer(302, headers={"Location": "/x"})]


@pytest.mark.parametrize("answer", [*TROUBLE, *NONSENSE])
async def test_other_provider_errors_are_outages(world: World, answer: Answer) -> None:
    """A firewall in front of it also responds 403, which proves nothing about a token."""
    token = world.idp.signed_in("alice")["access_token"]
    world.idp.bend.answers["/userinfo"] = answer
    with pytest.raises(ProviderError):
        await world.ask("opaque", token)


@pytest.mark.parametrize("bent", [{"issuer": "https://evil.example"}, {"jwks_uri": "http://evil.example/jwks"}, {"jwks_uri": ABSENT}])
async def test_a_discovery_document_of_another_issuer_is_not_believed(world: World, bent: dict[str, Any]) -> None:
    world.issuer.bend.discovery = bent
    with pytest.raises(ProviderError):
        await world.ask("jwt", world.ci_token())


async def test_keys_come_from_a_safe_address_only_also_where_another_would_answer(world: World) -> None:
    world.issuer.bend.discovery = {"jwks_uri": f"{world.issuer.issuer.replace('://', '://somebody@')}/jwks"}
    with pytest.raises(ProviderError, match="no https jwks_uri"):
        await world.ask("jwt", world.ci_token())


async def test_a_flood_of_made_up_tokens_is_bounded_at_the_provider(world: World) -> None:
    assert await world.ask("opaque", "made up before") is None, "so that the discovery document is cached"
    hold = world.idp.bend.holds["/userinfo"] = asyncio.Event()
    pending = [
        asyncio.ensure_future(world.ask("opaque", f"made-up-{number}")) for number in range(bearer_token_verification.MAX_CONCURRENT)
    ]
    await asyncio.sleep(0)
    with pytest.raises(ProviderError, match="too many"):
        await world.ask("opaque", "one more of them")
    hold.set()
    assert await asyncio.gather(*pending) == [None] * bearer_token_verification.MAX_CONCURRENT


async def flooded(world: World, count: int, **client_address: str) -> tuple[asyncio.Event, list[asyncio.Future[BearerSession | None]]]:
    """Send `count` made-up tokens, which the provider has not checked yet."""
    hold = world.idp.bend.holds["/userinfo"] = asyncio.Event()
    pending = [asyncio.ensure_future(world.ask("opaque", f"made-up-{number}", **client_address)) for number in range(count)]
    await asyncio.sleep(0)
    return hold, pending


async def test_one_client_s_flood_leaves_the_others_their_places(world: World) -> None:
    token = world.idp.signed_in("alice")["access_token"]
    hold, pending = await flooded(world, bearer_token_verification.MAX_PER_NETWORK, client_address="2001:db8::1")
    with pytest.raises(ProviderError, match="too many"):
        await world.ask("opaque", "one more of them", "2001:db8::2")
    valid = asyncio.ensure_future(world.ask("opaque", token, "192.0.2.1"))
    await asyncio.sleep(0)
    hold.set()
    assert await valid is not None
    assert await asyncio.gather(*pending) == [None] * bearer_token_verification.MAX_PER_NETWORK
    assert await world.ask("opaque", "one more of them", "2001:db8::2") is None


def new_token(world: World, route: str, **header: Any) -> str:
    """A token for this route that it has not seen."""
    if route == "opaque":
        return world.idp.signed_in("alice")["access_token"]
    claims = {"jti": secrets.token_hex(8), "header": header}
    if route in ("access", "id"):
        return world.access_token(**claims) if route == "access" else world.token(**claims)
    if route == "jwt":
        return world.ci_token(**claims)
    fixed = {"key": EC_KEY, "algorithm": "ES256", "header": {"kid": "fixed"}} if route == "file" else {}
    return world.ci_token(**{**claims, "iss": "https://ci.example.com", **fixed})


DISCOVERY = "/.well-known/openid-configuration"
OF_PROVIDER, OF_ISSUERS = ("opaque", "access", "id"), ("jwt", "url", "file")


@pytest.mark.parametrize(
    ("flooded_route", "path", "others"),
    [
        ("opaque", "/userinfo", ("access", "id", *OF_ISSUERS)),
        ("opaque", DISCOVERY, OF_ISSUERS),
        ("access", DISCOVERY, OF_ISSUERS),
        ("access", "/jwks", ("opaque", *OF_ISSUERS)),
        ("id", "/jwks", ("opaque", *OF_ISSUERS)),
        ("jwt", DISCOVERY, (*OF_PROVIDER, "url", "file")),
        ("jwt", "/jwks", (*OF_PROVIDER, "file")),
        ("url", "/jwks", (*OF_PROVIDER, "file")),
    ],
)
async def test_tokens_that_wait_are_bounded_and_hold_up_no_others(
    world: World, flooded_route: str, path: str, others: tuple[str, ...]
) -> None:
    """`url` and `file` take tokens of one issuer: those of `file` need no answer of it."""
    flooded_idp = world.idp if flooded_route in OF_PROVIDER else world.issuer
    hold = flooded_idp.bend.holds[path] = asyncio.Event()
    tokens = [new_token(world, flooded_route, kid="made-up") for _ in range(bearer_token_verification.MAX_CONCURRENT + 1)]
    pending = [asyncio.ensure_future(world.ask(flooded_route, token)) for token in tokens]
    await asyncio.wait(pending, timeout=5, return_when=asyncio.FIRST_COMPLETED)
    assert [type(task.exception()) for task in pending if task.done()] == [bearer_token_verification._QueueFull]
    async with asyncio.timeout(5):
        for route in others:
            assert await world.ask(route, new_token(world, route)) is not None, route
    hold.set()
    await asyncio.wait(pending)


@pytest.mark.parametrize("route", ["access", "id", "jwt", "url"])
async def test_tokens_by_unknown_keys_are_bounded_while_keys_are_fetched_and_hold_up_no_known_key(world: World, route: str) -> None:
    assert await world.ask(route, new_token(world, route)) is not None
    idp = world.idp if route in OF_PROVIDER else world.issuer
    hold = idp.bend.holds["/jwks"] = asyncio.Event()
    pending = [asyncio.ensure_future(world.ask(route, new_token(world, route, kid="made-up")))]
    await asyncio.wait(pending, timeout=0.1)
    world.now += key_set.REFETCH_INTERVAL  # the next one waits for a fetch after this one
    pending += [
        asyncio.ensure_future(world.ask(route, new_token(world, route, kid="made-up")))
        for _ in range(bearer_token_verification.MAX_CONCURRENT)
    ]
    await asyncio.wait(pending, timeout=5, return_when=asyncio.FIRST_COMPLETED)
    assert [type(task.exception()) for task in pending if task.done()] == [bearer_token_verification._QueueFull]
    async with asyncio.timeout(5):
        assert await world.ask(route, new_token(world, route)) is not None
    hold.set()
    await asyncio.wait(pending)


async def test_tokens_that_wait_are_bounded_in_all(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        idp = await FakeIdP.started()
        stack.push_async_callback(idp.stop)
        hold = idp.bend.holds["/jwks"] = asyncio.Event()
        keys = {"bearer_token": "jwt", "bearer_token_audience": AUDIENCE, "bearer_token_jwks_url": f"{idp.issuer}/jwks"}
        issuers = [f"https://ci-{number}.example.com" for number in range(100)]
        policy = [
            {**APP, **keys, "prefix": f"/{number}/", "bearer_token_issuer": issuer, "allowed_users": ["a"]}
            for number, issuer in enumerate(issuers)
        ]
        options = make_options(tmp_path, policy=policy, idp_provider_url=idp.issuer, idp_client_id=CLIENT_ID)
        tokens = BearerTokens(options, time.time)
        stack.push_async_callback(tokens.close)
        header, now, pending = encoded(b'{"alg": "RS256", "kid": "made-up"}'), int(time.time()), []
        for route, issuer in zip(options.policy, issuers, strict=True):
            payload = encoded(json.dumps({"iss": issuer, "aud": AUDIENCE, "sub": "a", "iat": now, "exp": now + 600}).encode())
            for number in range(bearer_token_verification.MAX_CONCURRENT):
                token = f"{header}.{payload}.{encoded(b'%d' % number)}"
                pending.append(asyncio.ensure_future(tokens.verify(route.id, token)))
        limit = bearer_token_verification.MAX_CONCURRENT * bearer_token_verification.FULL_QUEUES
        await eventually(lambda: sum(not task.done() for task in pending) <= limit)
        assert len(issuers) <= sum(not task.done() for task in pending)
        hold.set()
        await asyncio.wait(pending)


async def test_flood_does_not_delay_expiry_of_valid_tokens(world: World) -> None:
    """Otherwise a client with a revoked token would keep access for as long as it sends made-up tokens."""
    token = world.idp.signed_in("alice")["access_token"]
    assert await world.ask("opaque", token, "192.0.2.1") is not None
    world.idp._access_tokens.clear()
    world.now += bearer_token_verification.CACHE_SECONDS
    hold, pending = await flooded(world, bearer_token_verification.MAX_CONCURRENT)
    again = asyncio.ensure_future(world.ask("opaque", token, "192.0.2.1"))
    await asyncio.sleep(0)
    hold.set()
    assert await again is None
    await asyncio.gather(*pending)


async def test_forged_tokens_evict_no_valid_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer_token_verification, "MAX_CACHED", 3)
    world.restart()
    token = world.idp.signed_in("alice")["access_token"]
    known = await world.ask("opaque", token)
    for number in range(5):
        assert await world.ask("opaque", f"made-up-{number}") is None
    assert await world.ask("opaque", token) is known
    assert "4 tokens" in repr(world.tokens)


async def test_token_is_accepted_no_longer_than_its_expiry(world: World) -> None:
    token = world.ci_token(exp=int(world.now) + 5)
    assert await world.ask("jwt", token) is not None
    world.now += 66
    assert await world.ask("jwt", token) is None


async def test_memory_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer_token_verification, "MAX_CACHED", 3)
    world.restart()
    for number in range(6):
        assert await world.ask("jwt", world.ci_token(number=number)) is not None
    assert "3 tokens" in repr(world.tokens)


async def test_memory_is_bounded_in_bytes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator of a CI system's issuer chooses the claims of its tokens, and their size."""
    monkeypatch.setattr(bearer_token_verification, "MAX_CACHED_BYTES", 5_000_000)
    world.restart()
    for number in range(200):
        assert await world.ask("jwt", world.ci_token(number=number, claimed="x" * 20_000)) is not None
    held = int(re.search(r"(\d+) tokens", repr(world.tokens))[1])
    assert 40 < held < 170
