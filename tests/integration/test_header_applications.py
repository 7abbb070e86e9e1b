"""Real applications that trust a proxy's header sign in the user that gate names, and no user that a client forges.

Radicale, Django's RemoteUserMiddleware, Google's library as IAP's applications use it, and the reader that Cloudflare documents; and
readers of what Grafana, Gitea and Jenkins document, which are no packages that could be installed here.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.test_upstream_identity import new_key
from tests.support.children import Child, clean_environment, free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate, sign_in

AUDIENCE = "/projects/1/apps/gate"
PRINCIPAL = b'<propfind xmlns="DAV:"><prop><current-user-principal/></prop></propfind>'
FORGED = {
    **dict.fromkeys(("X-Remote-User", "X_Remote_User", "Remote-User", "remote_user", "Remote-Groups"), "bob@example.com"),
    **dict.fromkeys(
        ("X-WEBAUTH-USER", "x_webauth_user", "X-WEBAUTH-NAME", "X-WEBAUTH-EMAIL", "X-WEBAUTH-GROUPS", "X_WEBAUTH_FULLNAME"), "bob"
    ),
    **dict.fromkeys(("X-Forwarded-User", "X_Forwarded_User", "X-Forwarded-Groups"), "bob"),
    **dict.fromkeys(("X-Goog-IAP-JWT-Assertion", "Cf-Access-Jwt-Assertion", "CF_Access_JWT_Assertion"), "e30.e30.e30"),
}
GRAFANA = {"USER": "claim.email", "NAME": "claim.name", "GROUPS": "groups"}
GITEA = {"USER": "subject", "EMAIL": "claim.email", "FULLNAME": "claim.name"}
TEXTS = {
    "calendar": {"set_request_headers": {"X-Remote-User": "${claim.email}"}},
    "site": {"identity_headers": "remote-user", "set_request_headers": {"Remote-User": "${claim.email}"}},
    "iap": {"identity_headers": "iap", "assertion_audience": AUDIENCE},
    "cloudflare": {"identity_headers": "cloudflare", "assertion_audience": AUDIENCE},
    "grafana": {"set_request_headers": {f"X-WEBAUTH-{name}": f"${{{what}}}" for name, what in GRAFANA.items()}},
    "gitea": {"set_request_headers": {f"X-WEBAUTH-{name}": f"${{{what}}}" for name, what in GITEA.items()}},
    "jenkins": {"identity_headers": "oauth2-proxy"},
}
LOGS = {
    "calendar": "/alice%40example.com/",
    "site": "alice@example.com engineering",
    "iap": "oidc/alice alice@example.com",
    "cloudflare": "alice@example.com",
    "grafana": "alice@example.com|Alice Archer|['engineering']",
    "gitea": "alice|alice@example.com|Alice Archer",
    "jenkins": "alice|['engineering']",
}


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    directory, port = tmp_path_factory.mktemp("applications"), free_port()
    (directory / "key.pem").write_text(new_key())
    with DevelopmentProvider() as provider:
        builder = GateBuilder(provider.url, authenticate_host="localhost").setting(signing_key_file="key.pem", groups_claim="groups")
        for name, message in TEXTS.items():
            builder.route(f"{name}.localhost", to=f"http://127.0.0.1:{port}/{name}/", allow_any_authenticated_user=True, **message)
        with builder.start(directory) as running, applications(running, directory, port):
            yield running


def applications(running: RunningGate, directory: Path, port: int) -> Child:
    """All of them; two fetch gate's keys."""
    authority = str(running.certificates.authority)
    environment = clean_environment(SSL_CERT_FILE=authority, REQUESTS_CA_BUNDLE=authority)
    keys = f"https://localhost:{running.port}/.well-known/gate/jwks.json"
    arguments = ("-m", "tests.support.header_applications", str(port), directory, AUDIENCE, keys)
    child = Child(sys.executable, *arguments, environment=environment)
    child.wait_for(lambda: _listens(port), "the applications listen")
    return child


def _listens(port: int) -> bool:
    """Whether the applications listen and trust `Remote-User` of every client: only gate protects them from forged headers."""
    try:
        return "anybody" in httpx.get(f"http://127.0.0.1:{port}/site/", headers={"Remote-User": "anybody"}, trust_env=False).text
    except httpx.TransportError:
        return False


async def requested(client: httpx.AsyncClient, gate: RunningGate, name: str, **headers: str) -> httpx.Response:
    if name == "calendar":
        return await client.request("PROPFIND", gate.url("calendar.localhost"), content=PRINCIPAL, headers={"Depth": "0", **headers})
    return await client.get(gate.url(f"{name}.localhost"), headers=headers)


@pytest.mark.parametrize("name", TEXTS)
async def test_application_signs_in_the_user(gate: RunningGate, name: str) -> None:
    async with gate.client() as client:
        refused = await requested(client, gate, name, **FORGED)
        assert refused.status_code in (302, 401)
        await sign_in(client, gate.url(f"{name}.localhost"), "alice")
        for headers in ({}, FORGED):
            answer = await requested(client, gate, name, **headers)
            assert LOGS[name] in answer.text
            assert "bob" not in answer.text
