"""Likely causes of a provider's rejection of this client, for operators.

| the provider returns                                                     | likely cause                    |
|--------------------------------------------------------------------------|---------------------------------|
| `invalid_client`, GitHub's `incorrect_client_credentials`                | client id or secret             |
| `unauthorized_client` with 401, or a description that names credentials  | client id or secret (Keycloak)  |
| any error of a pushed request with 401                                   | client id or secret (Keycloak)  |
| `redirect_uri_mismatch`, a description that names the redirect URI       | the redirect URI to register    |
| `unauthorized_client`                                                    | the authorization code flow     |
"""

import re
from typing import NamedTuple

from authenticate.provider.provider_http import ProviderResponse
from authenticate.provider.tokens.token_response import error_code, error_text

_CREDENTIALS = re.compile("credential|client secret|invalid client|authentication failed", re.IGNORECASE)
_REDIRECT_URI = re.compile("redirect[ _-]?ur[il]", re.IGNORECASE)


class ClientRefusal(NamedTuple):
    """A rejection of the client: `key` is the end of the name of the setting to check."""

    key: str
    advice: str


def client_refusal(answer: ProviderResponse, redirect_uri: str, *, is_pushed: bool = False) -> ClientRefusal | None:
    """Return the likely cause, None if the response does not concern the client."""
    code, text = error_code(answer), error_text(answer)
    is_refused = answer.status in (401, 403) and (code == "unauthorized_client" or (is_pushed and bool(code)))
    if (
        code in ("invalid_client", "incorrect_client_credentials")
        or is_refused
        or (code == "unauthorized_client" and _CREDENTIALS.search(text))
    ):
        return ClientRefusal("client_secret", "The client id or client secret is wrong. Copy both from the provider")
    if code == "redirect_uri_mismatch" or (code and _REDIRECT_URI.search(text)):
        return ClientRefusal("client_id", f"Register this redirect URI for the client at the provider: {redirect_uri}")
    if code == "unauthorized_client":
        allowed = "pushed authorization requests" if is_pushed else "the authorization code flow"
        return ClientRefusal("client_id", f"Allow {allowed} for this client at the provider")
    return None
