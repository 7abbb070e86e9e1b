"""What upstreams are told by the running product: verified as docs/upstreams.md shows, with replaced keys, and a cluster's token."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.children import clean_environment, wait_until
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.sample_upstream import SampleUpstream

PAGE = Path(__file__).parents[2] / "docs" / "upstreams.md"
RUNNERS = {
    "python": ([sys.executable, "-"], "\nimport json, sys\nprint(json.dumps(who_asks(sys.argv[1])))\n"),
    "js": (["node", "--input-type=module", "-"], "\nconsole.log(JSON.stringify(await whoAsks(process.argv[2])));\n"),
}


def new_key() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.fixture
def running(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> Iterator[RunningGate]:
    (tmp_path / "key.pem").write_text(new_key())
    (tmp_path / "token").write_text("the-first-token\n")
    builder = (
        # The samples find the keys by the name `localhost`, which needs no resolver.
        GateBuilder(provider.url, authenticate_host="localhost")
        .route("app.localhost", to=upstream.url, allow_any_authenticated_user=True, pass_identity_headers=True)
        .route("k8s.localhost", to=upstream.url, allow_any_authenticated_user=True, cluster_service_account_token_file="token")
        .setting(signing_key_file="key.pem")
    )
    with builder.start(tmp_path) as running:
        yield running


def verified(running: RunningGate, language: str, assertion: str, audience: str) -> subprocess.CompletedProcess[str]:
    """What the page's own code says, after the reader has filled in the names."""
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    code = code.replace("authenticate.example.com", f"localhost:{running.port}").replace("app.example.com", audience)
    command, call = RUNNERS[language]
    authority = str(running.certificates.authority)
    environment = clean_environment(SSL_CERT_FILE=authority, NODE_EXTRA_CA_CERTS=authority)
    return subprocess.run(
        [*command, assertion], input=code + call, env=environment, capture_output=True, text=True, timeout=30, check=False
    )


async def headers_at(running: RunningGate, host: str) -> list[list[str]]:
    async with running.client() as client:
        page = await sign_in(client, running.url(host), "alice")
        again = await client.get(running.url(host), headers={"Authorization": "Bearer theirs", "Impersonate-User": "system:admin"})
    assert page.status_code == again.status_code == 200
    return again.json()["headers"]


async def keys_of(running: RunningGate) -> list[str]:
    async with running.client() as client:
        answer = await client.get(running.url("localhost", "/.well-known/gate/jwks.json"))
    return [key["kid"] for key in answer.json()["keys"]]


async def test_the_pages_code_verifies_an_assertion_and_refuses_others(running: RunningGate) -> None:
    assertion = dict(await headers_at(running, "app.localhost"))["x-gate-jwt-assertion"]
    audience = f"app.localhost:{running.port}"
    head, body, signature = assertion.split(".")
    forged = f"{head}.{body[:-2]}{'AA' if body[-2:] != 'AA' else 'BB'}.{signature}"
    for language in RUNNERS:
        good = verified(running, language, assertion, audience)
        assert good.returncode == 0, good.stderr
        assert json.loads(good.stdout)["sub"] == "oidc/alice"
        for token, host in ((assertion, "other.example"), (forged, audience)):
            bad = verified(running, language, token, host)
            assert bad.returncode != 0
            assert bad.stdout == ""


async def test_a_replaced_key_is_served_after_a_reload_and_a_restart(running: RunningGate, tmp_path: Path) -> None:
    (first,) = await keys_of(running)
    (tmp_path / "key.pem").write_text(new_key())
    running.wait_for_event("configuration reloaded")
    second, *others = await keys_of(running)
    assert second != first
    assert others == [first]
    kept = tmp_path / "data" / "published-keys.json"
    wait_until(lambda: second in kept.read_text(), "both keys are in the file")
    running.stop()
    with RunningGate(running.builder, running.config_file, running.certificates) as again:
        wait_until(lambda: first in kept.read_text(), "the keys are announced again")
        assert set(await keys_of(again)) == {first, second}


async def test_a_cluster_sees_the_person_and_a_token_that_is_read_again(running: RunningGate, tmp_path: Path) -> None:
    found = [pair for pair in await headers_at(running, "k8s.localhost") if pair[0] in ("authorization", "impersonate-user")]
    assert found == [["authorization", "Bearer the-first-token"], ["impersonate-user", "alice@example.com"]]
    (tmp_path / "token").write_text("the-second-token\n")
    running.wait_for_event("configuration reloaded")
    assert ["authorization", "Bearer the-second-token"] in await headers_at(running, "k8s.localhost")
    assert not any("-token" in line and "the-" in line for line in running.child.lines)
