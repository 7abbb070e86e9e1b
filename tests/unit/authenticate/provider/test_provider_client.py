"""How we prove to the provider who we are."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote, quote_plus, unquote_plus

import pytest
from structlog.testing import capture_logs

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.par import push_params
from authenticate.provider.provider_client import ProviderClient, with_query
from authenticate.provider.tokens.token_response import error_text
from databroker.records import SessionRecord
from foundation.errors import ProviderError
from tests.support.authenticate_site import Clock
from tests.support.fake_idp import ABSENT, Answer, FakeIdP
from tests.support.options import make_options

SECRET = "a:b%c d+é/="
SESSION = SessionRecord("s", "oidc/a", "a", "oidc", 0, 1, id_token="x.y.z", access_token="at")


@pytest.fixture
async def client(tmp_path: Path, idp: FakeIdP) -> AsyncIterator[ProviderClient]:
    options = make_options(tmp_path, idp_provider_url=idp.issuer, idp_client_id="client:1", idp_client_secret=SECRET)
    client = ProviderClient(options, options.first_provider, Clock())
    yield client
    await client.close()


async def test_basic_credentials_are_form_encoded_first(client: ProviderClient, idp: FakeIdP) -> None:
    await client.post_as_client(f"{idp.issuer}/token", {"a": "b"}, await client.discovery())
    (request,) = [request for request in idp.requests if request.path == "/token"]
    name, _, secret = base64.b64decode(request.headers["authorization"].removeprefix("Basic ")).decode().partition(":")
    assert (unquote_plus(name), unquote_plus(secret)) == ("client:1", SECRET)
    assert request.form == {"a": "b"}


async def test_the_secret_goes_into_the_form_where_only_that_is_accepted(client: ProviderClient, idp: FakeIdP) -> None:
    idp.bend.discovery = {"token_endpoint_auth_methods_supported": ["private_key_jwt", "client_secret_post"]}
    await client.post_as_client(f"{idp.issuer}/token", {"a": "b"}, await client.discovery())
    (request,) = [request for request in idp.requests if request.path == "/token"]
    assert request.form == {"a": "b", "client_id": "client:1", "client_secret": SECRET}
    assert "authorization" not in request.headers


async def test_the_access_token_is_revoked_where_there_is_no_refresh_token(client: ProviderClient, idp: FakeIdP) -> None:
    await client.revoke(SESSION)
    (request,) = [request for request in idp.requests if request.path == "/revoke"]
    assert request.form == {"token": "at", "token_type_hint": "access_token"}


BOTH = replace(SESSION, refresh_token="rt")


async def test_the_refresh_token_is_revoked_first_and_then_the_access_token(client: ProviderClient, idp: FakeIdP) -> None:
    await client.revoke(BOTH)
    sent = [(request.form["token"], request.form["token_type_hint"]) for request in idp.requests if request.path == "/revoke"]
    assert sent == [("rt", "refresh_token"), ("at", "access_token")]


@pytest.mark.parametrize("error", ["unsupported_token_type", "invalid_token"])
async def test_a_token_that_is_gone_already_is_no_failure(client: ProviderClient, idp: FakeIdP, error: str) -> None:
    idp.bend.answers["/revoke"] = Answer.json({"error": error}, 400)
    with capture_logs() as logs:
        await client.revoke(BOTH)
    assert (idp.count("/revoke"), logs) == (2, [])


@pytest.mark.parametrize("path", ["/revoke", "/.well-known/openid-configuration"])
@pytest.mark.parametrize("answer", [Answer(500), Answer.json({"error": "invalid_client"}, 401)], ids=["500", "401"])
async def test_a_failed_revocation_is_only_logged(client: ProviderClient, idp: FakeIdP, path: str, answer: Answer) -> None:
    idp.bend.answers[path] = answer
    with capture_logs() as logs:
        assert await client.revoke(BOTH) is None
    assert idp.count(path) == 1
    assert [(line["event"], line["log_level"]) for line in logs] == [("token revocation failed", "warning")]
    assert "rt" not in str(logs).split()


SENT = {name: f"{name}: a+b/c~d" for name in ("code", "code_verifier", "refresh_token", "state", "nonce", "token")}


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
@pytest.mark.parametrize("written", [str, quote, quote_plus, lambda secret: quote(secret, safe="")], ids=["plain", "path", "form", "URL"])
async def test_secrets_repeated_by_the_provider_are_redacted(
    client: ProviderClient, idp: FakeIdP, method: str, written: Callable[[str], str]
) -> None:
    idp.bend.discovery = {"token_endpoint_auth_methods_supported": [method]}
    discovery = await client.discovery()
    for secret in (*SENT.values(), SECRET):
        # Also where the line is cut off in the middle of it.
        for before, redacted in (("", "(<***> is bad)"), ("x" * 294, f"({'x' * 294}<**...)")):
            description = f"{before}<{written(secret)}> is bad"
            idp.bend.answers["/token"] = Answer.json({"error": "invalid_request", "error_description": description}, 400)
            assert error_text(await client.post_as_client(f"{idp.issuer}/token", SENT, discovery)) == f"invalid_request {redacted}"


async def test_non_secret_values_stay_readable(client: ProviderClient, idp: FakeIdP) -> None:
    idp.bend.answers["/token"] = Answer.json({"error": "invalid_grant", "error_description": "https://a.example/ is not registered"}, 400)
    form = {"grant_type": "authorization_code", "redirect_uri": "https://a.example/", "code": "c-1"}
    answer = await client.post_as_client(f"{idp.issuer}/token", form, await client.discovery())
    assert error_text(answer) == "invalid_grant (https://a.example/ is not registered)"
    assert "c-1" not in repr(answer)


async def test_a_secret_in_the_place_of_the_code_of_an_error_is_blanked_out(client: ProviderClient, idp: FakeIdP) -> None:
    idp.bend.answers["/token"] = Answer.json({"error": "verifier"}, 400)
    answer = await client.post_as_client(f"{idp.issuer}/token", {"code_verifier": "verifier"}, await client.discovery())
    assert error_text(answer) == "***"


@pytest.mark.parametrize("path", ["/userinfo", "/revoke", "/par"])
async def test_no_question_leaves_its_secrets_in_the_trouble_that_it_ends_in(client: ProviderClient, idp: FakeIdP, path: str) -> None:
    idp.bend.discovery = {"pushed_authorization_request_endpoint": f"{idp.issuer}/par"}
    description = f"access-token-1 and some-state and {SECRET}"
    idp.bend.answers[path] = Answer.json({"error": "temporarily_unavailable", "error_description": description}, 400)
    discovery = await client.discovery()
    with capture_logs() as logs:
        await client.revoke(replace(SESSION, access_token="access-token-1"))
    logged = str(logs)
    for question in (
        client.provider.userinfo(client, discovery, "access-token-1"),
        push_params(client, discovery, {"state": "some-state"}),
    ):
        try:
            await question
        except ProviderError as error:
            logged += str(error)
    assert "temporarily_unavailable" in logged
    assert "***" in logged
    secrets = {"/userinfo": ("access-token-1",), "/revoke": ("access-token-1", SECRET), "/par": ("some-state", SECRET)}[path]
    assert not any(secret in logged for secret in secrets)


async def test_a_provider_without_the_endpoint_is_one_line_in_the_log(client: ProviderClient, idp: FakeIdP) -> None:
    idp.bend.discovery = {"revocation_endpoint": ABSENT}
    with capture_logs() as logs:
        await client.revoke(BOTH)
    assert [(line["event"], line["log_level"]) for line in logs] == [("token revocation skipped", "info")]


async def test_unresponsive_provider_blocks_no_sign_in(client: ProviderClient, monkeypatch: pytest.MonkeyPatch) -> None:
    speaks = ProviderClient.discovery

    async def silent(client: ProviderClient) -> DiscoveryDocument:
        await asyncio.sleep(3)
        return await speaks(client)  # reached only if the caller exceeds its time limit

    monkeypatch.setattr(ProviderClient, "discovery", silent)
    assert await client.end_session_url(BOTH, {}, timeout=0.05) == ""


def test_a_query_is_added_to_a_url_that_has_one() -> None:
    assert with_query("https://idp.example/a", {"b": "c d"}) == "https://idp.example/a?b=c+d"
    assert with_query("https://idp.example/a?x=y", {"b": "c"}) == "https://idp.example/a?x=y&b=c"
