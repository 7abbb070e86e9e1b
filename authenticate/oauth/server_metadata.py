"""Metadata of the authorization server (RFC 8414), and its paths."""

from typing import Any

from authenticate.oauth.authorization_server import AUTHENTICATION_METHODS
from authenticate.oauth.oauth_client import AUTHORIZATION_CODE, CLIENT_CREDENTIALS, DEVICE_CODE, REFRESH_TOKEN
from authenticate.provider.tokens.key_set import ALGORITHMS

WELL_KNOWN = "/.well-known/oauth-authorization-server"
AUTHORIZE_PATH = "/.gate/oauth/authorize"
TOKEN_PATH = "/.gate/oauth/token"  # noqa: S105 - a path
REVOKE_PATH = "/.gate/oauth/revoke"
REGISTER_PATH = "/.gate/oauth/register"
DEVICE_AUTHORIZATION_PATH = "/.gate/oauth/device_authorization"
DEVICE_PATH = "/.gate/device"  # short, because users type it


def server_metadata(issuer: str, *, accepts_documents: bool, has_registration: bool = False) -> dict[str, Any]:
    """Return the metadata document.  `issuer` is the origin of the authenticate host, exactly.

    Scopes are in the metadata of each resource, because a client would request those of all.
    """
    document = {
        "issuer": issuer,
        "authorization_endpoint": issuer + AUTHORIZE_PATH,
        "token_endpoint": issuer + TOKEN_PATH,
        "revocation_endpoint": issuer + REVOKE_PATH,
        "device_authorization_endpoint": issuer + DEVICE_AUTHORIZATION_PATH,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [AUTHORIZATION_CODE, REFRESH_TOKEN, DEVICE_CODE, CLIENT_CREDENTIALS],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": AUTHENTICATION_METHODS,
        "token_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
        "revocation_endpoint_auth_methods_supported": AUTHENTICATION_METHODS,
        "revocation_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": accepts_documents,
    }
    return {**document, "registration_endpoint": issuer + REGISTER_PATH} if has_registration else document
