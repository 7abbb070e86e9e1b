"""The demo's applications: they trust a verified assertion and nothing else, and they count what they carry."""

import contextlib
import hashlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import jwt
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from cryptography.hazmat.primitives.asymmetric import ec

from examples.demo.assertion import HEADER, AssertionVerifier
from examples.demo.people import SITES
from examples.demo.upstreams import parsed_size, web_application
from tests.support.certs import certificate_files

KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = ec.generate_private_key(ec.SECP256R1())


class PublishedKeys:
    """An authenticate host that does nothing but publish KEY."""

    def __init__(self, issuer: str, ca_file: Path):
        self.issuer = issuer
        self.ca_file = ca_file

    def assertion(self, audience: str, *, key: ec.EllipticCurvePrivateKey = KEY, kid: str = "first", **claims: object) -> str:
        content = {"iss": self.issuer, "aud": audience, "email": "alice@example.com", "exp": time.time() + 60, **claims}
        return jwt.encode(content, key, algorithm="ES256", headers={"kid": kid})


@pytest.fixture
async def keys(tmp_path: Path) -> AsyncIterator[PublishedKeys]:
    files = certificate_files(tmp_path, "authenticate.localhost")
    jwk = {**jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "first", "alg": "ES256", "use": "sig"}

    async def jwks(request: web.Request) -> web.Response:
        return web.json_response({"keys": [jwk]})

    application = web.Application()
    application.router.add_get("/.well-known/gate/jwks.json", jwks)
    server = TestServer(application, host="127.0.0.1")
    await server.start_server(ssl=files.server_context())
    yield PublishedKeys(f"authenticate.localhost:{server.port}", files.authority)
    await server.close()


@contextlib.asynccontextmanager
async def site_client(name: str, keys: PublishedKeys) -> AsyncIterator[TestClient]:
    site = next(site for site in SITES if site.name == name)
    async with TestClient(TestServer(web_application(site, keys.issuer, keys.ca_file), host="127.0.0.1")) as client:
        yield client


def audience(name: str, keys: PublishedKeys) -> str:
    return f"{name}.localhost:{keys.issuer.partition(':')[2]}"


async def test_hello_reports_verified_assertion(keys: PublishedKeys) -> None:
    async with site_client("hello", keys) as client:
        answer = await client.get("/", headers={HEADER: keys.assertion(audience("hello", keys))})
        page = await answer.text()
    assert answer.status == 200
    assert 'data-verified="yes"' in page
    assert "alice@example.com" in page


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"key": OTHER_KEY}, "Signature verification failed", id="another key"),
        pytest.param({"kid": "second"}, "has no key", id="an unpublished key"),
        pytest.param({"iss": "authenticate.example"}, "Invalid issuer", id="another issuer"),
        pytest.param({"exp": 1}, "expired", id="lapsed"),
    ],
)
async def test_a_false_assertion_is_not_believed(keys: PublishedKeys, change: dict, problem: str) -> None:
    verifier = AssertionVerifier(keys.issuer, keys.ca_file)
    verdict = await verifier.verify(keys.assertion("hello.localhost", **change), "hello.localhost")
    await verifier.close()
    assert problem in verdict.problem
    assert not verdict.is_verified
    assert verdict.claims == {}


@pytest.mark.parametrize(("name", "path"), [("files", "/download?size=10"), ("files", "/upload"), ("finance", "/")])
async def test_serves_only_requests_through_gate(keys: PublishedKeys, name: str, path: str) -> None:
    async with site_client(name, keys) as client:
        of_another_site = keys.assertion(audience("hello", keys))
        assert (await client.get(path)).status == 403
        assert (await client.get(path, headers={HEADER: of_another_site})).status == 403


async def test_visitor_input_is_text_and_never_markup(keys: PublishedKeys) -> None:
    async with site_client("hello", keys) as client:
        page = await (await client.get("/", headers={"X-Note": "<script>alert(1)</script>"})).text()
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


async def test_an_upload_is_counted_and_hashed(keys: PublishedKeys) -> None:
    content = b"0123456789" * 100_000
    async with site_client("files", keys) as client:
        answer = await client.post("/upload", data=content, headers={HEADER: keys.assertion(audience("files", keys))})
        result = await answer.json()
    assert (result["bytes"], result["sha256"]) == (1_000_000, hashlib.sha256(content).hexdigest())


async def test_download_has_requested_size(keys: PublishedKeys) -> None:
    async with site_client("files", keys) as client:
        answer = await client.get("/download?size=200KB", headers={HEADER: keys.assertion(audience("files", keys))})
        assert len(await answer.read()) == 200_000


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("250", 250), ("1MB", 10**6), ("2 gib", 2**31), ("10GiB", 10 * 2**30)])
def test_sizes_may_have_units(text: str, size: int) -> None:
    assert parsed_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1.5MB", "1XB", "11GiB", "9" * 13, "１"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="size is"):
        parsed_size(text)
