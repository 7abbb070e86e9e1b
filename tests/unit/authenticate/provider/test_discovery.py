"""A discovery document is believed only where it is the configured issuer's."""

from typing import Any

import pytest

from authenticate.provider.discovery import is_secure_url, parse
from foundation.errors import ProviderError

ISSUER = "https://idp.example.com"
DOCUMENT = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/jwks",
    "id_token_signing_alg_values_supported": ["RS256", "HS256", "none", "ES256K"],
}


def test_the_document_of_the_issuer_is_read() -> None:
    discovery = parse(DOCUMENT, ISSUER)
    assert discovery.algorithms == {"RS256"}
    assert (discovery.userinfo_endpoint, discovery.revocation_endpoint, discovery.end_session_endpoint) == ("", "", "")
    assert not discovery.sends_iss


@pytest.mark.parametrize(
    "issuer",
    [
        None,
        "",
        "https://idp.example.com/",
        "https://idp.example",
        "https://idp.example.com.evil.example",
        "https://IDP.example.com",
        [ISSUER],
    ],
)
def test_another_issuer_is_refused(issuer: Any) -> None:
    with pytest.raises(ProviderError, match="issuer is"):
        parse({**DOCUMENT, "issuer": issuer}, ISSUER)


def test_a_slash_too_many_is_explained() -> None:
    for named, configured in ((ISSUER + "/", ISSUER), (ISSUER, ISSUER + "/")):
        with pytest.raises(ProviderError, match="final slash"):
            parse({**DOCUMENT, "issuer": named}, configured)


@pytest.mark.parametrize("offered", [["HS256"], ["none"], [], "RS256", None, 7, {"RS256": 1}])
def test_provider_without_supported_algorithm_is_refused(offered: Any) -> None:
    with pytest.raises(ProviderError, match="signs ID tokens"):
        parse({**DOCUMENT, "id_token_signing_alg_values_supported": offered}, ISSUER)


@pytest.mark.parametrize("key", ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint"])
@pytest.mark.parametrize(
    "url",
    [
        "http://idp.example.com/x",
        "http://127.0.0.1/x",
        "javascript:alert(1)",
        "//idp.example.com",
        "https://",
        "https://a@b/",
        7,
        "https://x/ y",
    ],
)
def test_endpoints_without_tls_are_refused(key: str, url: Any) -> None:
    with pytest.raises(ProviderError, match=key):
        parse({**DOCUMENT, key: url}, ISSUER)


@pytest.mark.parametrize("key", ["authorization_endpoint", "token_endpoint", "jwks_uri"])
def test_code_flow_requirements_are_mandatory(key: str) -> None:
    with pytest.raises(ProviderError, match=key):
        parse({name: value for name, value in DOCUMENT.items() if name != key}, ISSUER)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9400/x", "http://[::1]/x", "http://localhost:1/x", "http://idp.localhost/x", "https://a.example/x?y=z"]
)
def test_plain_http_is_for_a_provider_on_loopback(url: str) -> None:
    assert is_secure_url(url, "http://127.0.0.1:9000")
    assert is_secure_url(url, ISSUER) == url.startswith("https://")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1.evil.example/", "http://localhost.evil.example/", "http://10.0.0.1/", "http://0.0.0.0/", "http://[::]/"]
)
def test_loopback_lookalike_is_rejected(url: str) -> None:
    assert not is_secure_url(url, "http://127.0.0.1:9000")
