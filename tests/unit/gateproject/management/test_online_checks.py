"""Online checks of the provider; connections are in tests/integration/test_checkconfig_online.py."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from authenticate.provider import address_scope
from config.options import Options
from config.parsing.document import format_key_path
from gateproject.management import online_checks
from tests.support.certs import certificate_files
from tests.support.children import free_port
from tests.support.fake_idp import ABSENT, CLIENT_ID, CLIENT_SECRET, DISCOVERY, Answer, FakeIdP
from tests.support.faulty_servers import plain_http, server, tls
from tests.support.options import make_options
from tests.support.several_providers import WITHOUT, entry

TOKEN = "/token"


@pytest.fixture
async def idp() -> AsyncIterator[FakeIdP]:
    provider = await FakeIdP.started()
    yield provider
    await provider.stop()


def options(directory: Path, idp: FakeIdP, **more: Any) -> Options:
    settings = {"idp_provider": "oidc", "idp_provider_url": idp.issuer, "idp_client_id": CLIENT_ID, "idp_client_secret": CLIENT_SECRET}
    return make_options(directory, **{**settings, **more})


async def test_a_provider_that_answers_and_takes_the_client_is_no_finding(tmp_path: Path, idp: FakeIdP) -> None:
    assert await online_checks.findings(options(tmp_path, idp)) == []
    token_request = next(request for request in idp.requests if request.method == "POST")
    assert token_request.form["grant_type"] == "authorization_code"
    assert token_request.form["redirect_uri"].endswith("/oauth2/callback")


INVALID_SECRET, NO_FLOW, REGISTER = "client secret is wrong", "Allow the authorization code flow", "Register this redirect URI"
KEYCLOAK = "Invalid client or Invalid client credentials"


@pytest.mark.parametrize(
    ("error", "description", "status", "key", "message"),
    [
        ("invalid_client", "", 401, "idp_client_secret", INVALID_SECRET),
        ("invalid_client", "Bad client", 400, "idp_client_secret", "with status 400: invalid_client (Bad client). The client id"),
        ("incorrect_client_credentials", "", 200, "idp_client_secret", INVALID_SECRET),
        ("unauthorized_client", KEYCLOAK, 401, "idp_client_secret", INVALID_SECRET),
        ("unauthorized_client", KEYCLOAK, 400, "idp_client_secret", INVALID_SECRET),
        ("unauthorized_client", KEYCLOAK, 401, "idp_client_secret", KEYCLOAK),
        ("unauthorized_client", "", 401, "idp_client_secret", INVALID_SECRET),
        ("unauthorized_client", "Client not allowed for direct access grants", 400, "idp_client_id", NO_FLOW),
        ("redirect_uri_mismatch", "", 400, "idp_client_id", REGISTER),
        ("", "", 502, "idp_provider", "status 502"),
    ],
)
async def test_client_rejected_by_provider_is_reported(
    tmp_path: Path, idp: FakeIdP, error: str, description: str, status: int, key: str, message: str
) -> None:
    idp.bend.answers[TOKEN] = Answer.json({"error": error, "error_description": description} if error else {}, status)
    (found,) = await online_checks.findings(options(tmp_path, idp))
    assert found[0] == (key,)
    assert message in found[1]
    assert CLIENT_SECRET not in found[1]


@pytest.mark.parametrize(
    ("error", "description", "status", "key", "message"),
    [
        (
            "invalid_request",
            "Authentication failed.",
            401,
            "idp_client_secret",
            f"(Authentication failed.). The client id or {INVALID_SECRET}",
        ),
        (
            "invalid_request",
            "Invalid parameter: redirect_uri",
            400,
            "idp_client_id",
            REGISTER,
        ),
        ("unauthorized_client", "no PAR", 400, "idp_client_id", "Allow pushed authorization requests"),
        ("invalid_scope", "Invalid scopes: x", 400, "idp_client_id", "invalid_scope (Invalid scopes: x)"),
    ],
)
async def test_a_sign_in_is_pushed_where_the_provider_takes_that(
    tmp_path: Path, idp: FakeIdP, error: str, description: str, status: int, key: str, message: str
) -> None:
    idp.bend.discovery = {"pushed_authorization_request_endpoint": f"{idp.issuer}/par"}
    idp.bend.answers["/par"] = Answer.json({"request_uri": "urn:x", "expires_in": 60}, 201)
    assert await online_checks.findings(options(tmp_path, idp)) == []
    (pushed,) = [request.form for request in idp.requests if request.path == "/par"]
    assert pushed.keys() >= {"state", "nonce", "code_challenge", "redirect_uri", "scope", "response_type", "client_id"}
    idp.bend.answers["/par"] = Answer.json({"error": error, "error_description": f"{description}\x00{CLIENT_SECRET}"}, status)
    (found,) = await online_checks.findings(options(tmp_path, idp))
    assert found[0] == (key,)
    assert message.replace(")", " ***)", 1) in found[1] or message in found[1]
    assert CLIENT_SECRET not in found[1]


@pytest.mark.parametrize(
    ("error", "status"),
    [("invalid_grant", 400), ("invalid_grant", 403), ("bad_verification_code", 200), ("invalid_request", 400)],
)
async def test_other_errors_do_not_blame_the_client(tmp_path: Path, idp: FakeIdP, error: str, status: int) -> None:
    idp.bend.answers[TOKEN] = Answer.json({"error": error}, status)
    assert await online_checks.findings(options(tmp_path, idp)) == []


@pytest.mark.parametrize(
    ("bent", "message"),
    [
        ({"issuer": "https://evil.example"}, "issuer is 'https://evil.example'"),
        ({"token_endpoint": None}, "token_endpoint is missing"),
        ({"jwks_uri": "http://keys.example.com"}, "jwks_uri"),
        ({"id_token_signing_alg_values_supported": ["HS256"]}, "ID tokens"),
    ],
)
async def test_sign_in_failures_are_reported(tmp_path: Path, idp: FakeIdP, bent: dict[str, Any], message: str) -> None:
    idp.bend.discovery = bent
    (found,) = await online_checks.findings(options(tmp_path, idp))
    assert found[0] == ("idp_provider_url",)
    assert message in found[1]


@pytest.mark.parametrize("key", ["userinfo_endpoint", "revocation_endpoint", "pushed_authorization_request_endpoint"])
async def test_an_endpoint_that_gate_will_not_request_is_reported(
    tmp_path: Path, idp: FakeIdP, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address_scope, "_is_local_address", lambda address: address.is_loopback)
    idp.bend.discovery = {key: "https://10.0.0.1/x"}
    (found,) = await online_checks.findings(options(tmp_path, idp))
    assert found[0] == ("idp_provider_url",)
    assert "10.0.0.1: " in found[1]
    assert "host 127.0.0.1" in found[1]
    assert "private address" in found[1]


@pytest.mark.parametrize("path", [DISCOVERY, "/jwks"])
async def test_missing_document_is_reported(tmp_path: Path, idp: FakeIdP, path: str) -> None:
    idp.bend.answers[path] = Answer(404)
    (found,) = await online_checks.findings(options(tmp_path, idp))
    assert found[0] == ("idp_provider_url",)
    assert "404" in found[1]


async def test_provider_without_key_is_reported(tmp_path: Path, idp: FakeIdP) -> None:
    idp.bend.answers["/jwks"] = Answer.json({"keys": []})
    (found,) = await online_checks.findings(options(tmp_path, idp))
    assert "no key" in found[1]


def test_otherwise_invalid_configuration_is_not_checked() -> None:
    assert list(online_checks.answers(object())) == []


@pytest.mark.parametrize(
    ("setting", "key", "expected"),
    [
        ({"idp_provider_url": "https://127.0.0.1:{refusing}"}, "idp_provider_url", "refused the connection"),
        ({"idp_provider_url": "https://127.0.0.1:{plain}"}, "idp_provider_url", "not speak TLS"),
        ({"idp_provider_url": "https://127.0.0.1:{tls}"}, "idp_provider_url", "presented an untrusted certificate"),
        ({"idp_provider_url": "https://idp.invalid"}, "idp_provider_url", "can't be resolved"),
        (
            {"databroker_storage_type": "kvstore", "databroker_storage_connection_string": "redis://127.0.0.1:{refusing}/0"},
            "databroker_storage_connection_string",
            "refused the connection",
        ),
        (
            {"databroker_service_url": "http://127.0.0.1:{refusing}", "services": "proxy"},
            "databroker_service_url",
            "refused the connection",
        ),
        ({"authorize_service_url": "http://127.0.0.1:{refusing}", "services": "proxy"}, "authorize_service_url", "refused the connection"),
        (
            {"database_url": "postgresql://u:secret-word@127.0.0.1:{refusing}/d", "databroker_storage_type": "database"},
            "database_url",
            "refused the connection",
        ),
    ],
)
async def test_framework_texts_are_translated_too(tmp_path: Path, idp: FakeIdP, setting: dict[str, str], key: str, expected: str) -> None:
    with server(plain_http) as plain, server(tls(certificate_files(tmp_path, "idp.localhost"))) as secure:
        ports = {"refusing": free_port(), "plain": plain, "tls": secure}
        settings = (
            {"services": "proxy", "databroker_service_url": f"http://127.0.0.1:{free_port()}"} if key == "authorize_service_url" else {}
        )
        settings |= {"authorize_service_url": f"http://127.0.0.1:{plain}"} if key == "databroker_service_url" else {}
        settings |= {name: value.format(**ports) for name, value in setting.items()}
        found = {format_key_path(place): message for place, message, *_ in await online_checks.findings(options(tmp_path, idp, **settings))}
    assert expected in found[key]
    assert "secret-word" not in str(found)


@pytest.mark.parametrize(
    ("keys", "listed", "warns"),
    [
        ({}, ["sub", "email"], True),
        ({}, ["sub", "email", "email_verified"], False),
        ({}, ABSENT, False),
        ({"trust_email": True}, ["sub", "email"], False),
    ],
)
async def test_link_to_provider_without_verification_claim_is_a_warning(
    tmp_path: Path, idp: FakeIdP, keys: dict[str, Any], listed: Any, warns: bool
) -> None:
    link: dict[str, Any] = {"link_by": "verified_email", "domains": ["shared.example"]}
    other = {**entry("partner", idp), "url": "https://idp.partner.example", **link, "trust_email": True}
    idp.bend.discovery = {"claims_supported": listed}
    entries = [{**entry("corp", idp), **link, **keys}, other]
    found = await online_checks.link_findings(make_options(tmp_path, **{**WITHOUT, "identity_providers": entries}))
    assert [format_key_path(place) for place, *_ in found] == (["identity_providers[0].link_by"] if warns else [])
    assert all("trust_email: true" in message for _, message, *_ in found)
