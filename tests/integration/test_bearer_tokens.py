"""Tokens of an independent provider authenticate programs at the running product; the application never sees them."""

import base64
import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from foundation.auth_challenges import INVALID_TOKEN
from tests.support.certified_provider import CLIENT_ID, CLIENT_SECRET, CertifiedProvider, why_not_here
from tests.support.gate import GateBuilder, RunningGate
from tests.support.upstream import SampleUpstream

pytestmark = pytest.mark.skipif(bool(why_not_here()), reason=why_not_here())

PROGRAM = "http://localhost:7000/cb"
VERIFIER = "v" * 43
SCIM_TOKEN = "a-random-token-0123456789-abcdefghij"


@pytest.fixture(scope="module")
def provider() -> Iterator[CertifiedProvider]:
    with CertifiedProvider(PROGRAM) as running:
        yield running


@pytest.fixture(scope="module")
def gate(provider: CertifiedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    with ExitStack() as stack:
        upstream = stack.enter_context(SampleUpstream())
        people = {"to": upstream.url, "allowed_groups": ["engineering"], "allowed_users": ["oidc/alice"], "pass_identity_headers": True}
        builder = (
            GateBuilder(provider.url)
            .route("id.localhost", **people, bearer_token="idp_id_token")
            .route("opaque.localhost", **people, bearer_token="idp_access_token", bearer_token_audience="*")
            .route("signed.localhost", **people, bearer_token="idp_access_token", bearer_token_audience="api://app")
            .route("none.localhost", **people)
            .setting(idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, groups_claim="groups", jwt_claims_headers=["user", "groups"])
            .setting(scim_token=SCIM_TOKEN)
        )
        yield stack.enter_context(builder.start(tmp_path_factory.mktemp("gate")))


def challenge_of(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


async def tokens_of(provider: CertifiedProvider) -> dict[str, str]:
    """As a program gets them that is a client of the provider."""
    requested = {
        "client_id": CLIENT_ID, "response_type": "code", "redirect_uri": PROGRAM, "scope": "openid profile email",
        "code_challenge": challenge_of(VERIFIER), "code_challenge_method": "S256",
    }  # fmt: skip
    async with httpx.AsyncClient(trust_env=False) as account:
        answer = await account.get(f"{provider.url}/auth", params=requested)
        for _ in range(10):
            if answer.status_code == 200:
                answer = await account.post(answer.url, data={"sub": "alice"})
                continue
            location = str(answer.url.join(answer.headers["location"]))
            if location.startswith(PROGRAM):
                break
            answer = await account.get(location)
        form = {
            "grant_type": "authorization_code", "code": parse_qs(urlsplit(location).query)["code"][0], "redirect_uri": PROGRAM,
            "code_verifier": VERIFIER,
        }  # fmt: skip
        redeemed = await account.post(
            f"{provider.url}/token", data=form, auth=(CLIENT_ID.replace(" ", "%20"), CLIENT_SECRET.replace(" ", "%20"))
        )
        assert redeemed.status_code == 200, redeemed.text
        return redeemed.json()


async def test_each_token_lets_its_owner_in_where_it_belongs(gate: RunningGate, provider: CertifiedProvider, tmp_path: Path) -> None:
    tokens = await tokens_of(provider)
    async with gate.client() as program:

        async def ask(host: str, token: str) -> httpx.Response:
            return await program.get(gate.url(host, "/x"), headers={"Authorization": f"Bearer {token}"})

        for host, token in (("id.localhost", tokens["id_token"]), ("opaque.localhost", tokens["access_token"])):
            page = await ask(host, token)
            assert page.status_code == 200, page.text
            received = dict(page.json()["headers"])
            assert received["x-gate-claim-user"] == "oidc/alice"
            # This provider returns groups only at its userinfo endpoint.
            assert received.get("x-gate-claim-groups", "") == ("engineering" if host == "opaque.localhost" else "")
            assert "authorization" not in received
            assert token not in page.text
        for host, token in (
            ("id.localhost", tokens["access_token"]),
            ("opaque.localhost", tokens["id_token"]),
            ("signed.localhost", tokens["id_token"]),
            ("signed.localhost", tokens["access_token"]),
        ):
            refused = await ask(host, token)
            assert refused.status_code == 401, host
            assert refused.headers["www-authenticate"] == INVALID_TOKEN
        assert (await ask("none.localhost", tokens["id_token"])).status_code == 401
    assert not any(token in gate.child.output for token in (tokens["id_token"], tokens["access_token"]))


async def test_token_of_deactivated_user_ends(gate: RunningGate, provider: CertifiedProvider) -> None:
    token = (await tokens_of(provider))["id_token"]
    users = gate.url(gate.builder.authenticate_host, "/.gate/scim/v2/Users")
    pushing = {"Authorization": f"Bearer {SCIM_TOKEN}", "Content-Type": "application/scim+json"}
    async with gate.client() as program, gate.client() as pusher:

        async def status() -> int:
            return (await program.get(gate.url("id.localhost", "/x"), headers={"Authorization": f"Bearer {token}"})).status_code

        user = (await pusher.post(users, json={"userName": "alice@example.com", "externalId": "alice"}, headers=pushing)).json()
        for active, expected in ((True, 200), (False, 401), (True, 200)):
            change = {"Operations": [{"op": "replace", "value": {"active": active}}]}
            assert (await pusher.patch(f"{users}/{user['id']}", json=change, headers=pushing)).status_code == 200
            assert await status() == expected
