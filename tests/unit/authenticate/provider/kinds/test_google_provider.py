"""Google: what only it does; the sign-in itself is in tests/contract/test_providers.py."""

import json
from pathlib import Path

from authenticate.provider.kinds.kind_registry import build_provider
from authenticate.provider.provider_http import ProviderResponse
from tests.support.options import make_options


class Http:
    """Answers with the discovery document that Google publishes, as far as it matters here."""

    async def get(self, url: str, headers: dict[str, str] | None = None) -> ProviderResponse:
        assert url == "https://accounts.google.com/.well-known/openid-configuration"
        document = {
            "issuer": "https://accounts.google.com",
            "authorization_endpoint": "https://accounts.google.com/o/oauth2/v2/auth",
            "token_endpoint": "https://oauth2.googleapis.com/token",
            "jwks_uri": "https://www.googleapis.com/oauth2/v3/certs",
            "id_token_signing_alg_values_supported": ["RS256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        }
        return ProviderResponse(200, "application/json", json.dumps(document).encode())


async def test_secret_is_in_the_form_regardless_of_published_methods(tmp_path: Path) -> None:
    provider = build_provider(make_options(tmp_path, idp_provider="google", idp_provider_url=None).first_provider)
    found = await provider.discovery(Http())  # type: ignore[arg-type]
    assert found.token_auth_methods == {"client_secret_post"}
    assert found.token_endpoint == "https://oauth2.googleapis.com/token"
