"""Identity that upstreams receive: verified as docs/guides/verify-assertion.md shows, with replaced keys, and a cluster token."""

import base64
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.children import clean_environment
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.upstream import SampleUpstream

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "verify-assertion.md"
SAMPLES = {"js": "verify.mjs", "go": "identity.go", "java": "Identity.java"}
JACKSON = [Path(f"/usr/share/java/jackson-{part}.jar") for part in ("core", "annotations", "databind")]
# Large, so they are optional: their samples run where they are installed.
HAS_GO = shutil.which("go") is not None
HAS_JAVA = shutil.which("javac") is not None and all(jar.exists() for jar in JACKSON)
PYTHON_MAIN = "\nimport json, sys\nprint(json.dumps(verify_assertion(sys.argv[1])))\n"
NODE_MAIN = "\nconsole.log(JSON.stringify(await verifyAssertion(process.argv[2])));\n"
GO_MAIN = """package main

import (
	"encoding/json"
	"log"
	"os"

	"sample/identity"
)

func main() {
	claims, err := identity.VerifyAssertion(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	json.NewEncoder(os.Stdout).Encode(claims)
}
"""
JAVA_MAIN = """public final class Main {
    public static void main(String[] arguments) throws Exception {
        System.out.println(new Identity().verifyAssertion(arguments[0]));
    }
}
"""


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


def sample(running: RunningGate, language: str, audience: str) -> str:
    """Return the code that the page shows or links to, with the host names filled in."""
    if language == "python":
        (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    else:
        code = (ROOT / "examples" / "verify_assertion" / SAMPLES[language]).read_text()
    return code.replace("authenticate.example.com", f"localhost:{running.port}").replace("app.example.com", audience)


def program(language: str, code: str, directory: Path, authority: Path) -> list[str | Path]:
    """The command that prints the claims of the assertion which follows."""
    directory.mkdir()
    match language:
        case "python":
            (directory / "sample.py").write_text(code + PYTHON_MAIN)
            return [sys.executable, directory / "sample.py"]
        case "js":
            (directory / "sample.mjs").write_text(code + NODE_MAIN)
            return ["node", directory / "sample.mjs"]
        case "go":
            (directory / "identity").mkdir()
            (directory / "identity" / "identity.go").write_text(code)
            (directory / "main.go").write_text(GO_MAIN)
            (directory / "go.mod").write_text("module sample\n\ngo 1.19\n")
            _make(["go", "build", "-o", "sample", "."], directory)
            return [directory / "sample"]
    (directory / "Identity.java").write_text(code)
    (directory / "Main.java").write_text(JAVA_MAIN)
    classes, store = ":".join(map(str, [*JACKSON, directory])), directory / "authority.p12"
    _make(["javac", "-cp", classes, "Identity.java", "Main.java"], directory)
    _make(["keytool", "-importcert", "-noprompt", "-file", authority, "-keystore", store, "-storepass", "changeit"], directory)
    trust = [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=changeit"]
    return ["java", *trust, "-cp", classes, "Main"]


def _make(command: list[str | Path], directory: Path) -> None:
    # Go compiles its whole library the first time.
    made = subprocess.run(command, cwd=directory, env=clean_environment(), capture_output=True, text=True, timeout=600, check=False)
    assert made.returncode == 0, made.stderr


def output(command: list[str | Path], assertion: str, authority: Path) -> subprocess.CompletedProcess[str]:
    environment = clean_environment(SSL_CERT_FILE=str(authority), NODE_EXTRA_CA_CERTS=str(authority))
    return subprocess.run([*command, assertion], env=environment, capture_output=True, text=True, timeout=60, check=False)


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


@pytest.mark.parametrize(
    "language",
    [
        "python",
        "js",
        pytest.param("go", marks=pytest.mark.skipif(not HAS_GO, reason="there is no Go compiler")),
        pytest.param("java", marks=pytest.mark.skipif(not HAS_JAVA, reason="there is no javac, or no jackson in /usr/share/java")),
    ],
)
async def test_the_pages_code_verifies_an_assertion_and_refuses_others(running: RunningGate, tmp_path: Path, language: str) -> None:
    assertion = dict(await headers_at(running, "app.localhost"))["x-gate-jwt-assertion"]
    authority = running.certificates.authority
    code = sample(running, language, f"app.localhost:{running.port}")
    command = program(language, code, tmp_path / "ours", authority)
    valid = output(command, assertion, authority)
    assert valid.returncode == 0, valid.stderr
    assert json.loads(valid.stdout)["sub"] == "oidc/alice"
    head, body, signature = assertion.split(".")
    forged = f"{head}.{body[:-2]}{'AA' if body[-2:] != 'AA' else 'BB'}.{signature}"
    no_algorithm = base64.urlsafe_b64encode(json.dumps({"alg": "none"}).encode()).rstrip(b"=").decode()
    unsigned = f"{no_algorithm}.{body}."
    other = program(language, sample(running, language, "other.example"), tmp_path / "other", authority)
    for tried, token in ((command, forged), (command, unsigned), (command, "a.b.c"), (command, ""), (other, assertion)):
        bad = output(tried, token, authority)
        assert bad.returncode != 0
        assert bad.stdout == ""


async def test_a_replaced_key_is_served_after_a_reload(running: RunningGate, tmp_path: Path) -> None:
    (first,) = await keys_of(running)
    (tmp_path / "key.pem").write_text(new_key())
    running.wait_for_event("configuration reloaded")
    second, *others = await keys_of(running)
    assert second != first
    assert others == [first]


async def test_cluster_gets_impersonated_user_and_reloaded_token(running: RunningGate, tmp_path: Path) -> None:
    found = [pair for pair in await headers_at(running, "k8s.localhost") if pair[0] in ("authorization", "impersonate-user")]
    assert found == [["authorization", "Bearer the-first-token"], ["impersonate-user", "alice@example.com"]]
    (tmp_path / "token").write_text("the-second-token\n")
    running.wait_for_event("configuration reloaded")
    assert ["authorization", "Bearer the-second-token"] in await headers_at(running, "k8s.localhost")
    assert not any("-token" in line and "the-" in line for line in running.child.lines)
