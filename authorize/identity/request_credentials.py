"""Credentials of a request outside its cookies.  This module parses them; others verify them."""

import re

from authorize.policy.policy_request import PolicyRequest
from foundation.auth_challenges import INVALID_TOKEN
from foundation.bounded_cache import MemoCache
from foundation.crypto.agent_token import ACCESS_TOKEN_PREFIXES, AgentTokenKind
from foundation.crypto.service_account_token import PREFIX

# Every credential that is parsed here must be removed before a request is forwarded.  proxy/rewriting/request_headers.py and
# proxy/rewriting/target.py parse more leniently.
_TOKEN = re.compile(r"[A-Za-z0-9_.~+/-]+=*", re.ASCII)  # RFC 6750 2.1
_REQUEST_HEADERS = (b"authorization",)
_TUNNEL_HEADERS = (b"authorization", b"proxy-authorization")
QUERY_TOKEN_PARAM = "gate_session"  # noqa: S105
# No client application needs these headers, and no page can suppress them.  Old browsers, and all over plain HTTP, send no Sec-Fetch-*.
_BROWSER_HEADER_PREFIXES = (b"sec-fetch-", b"sec-ch-")
_BROWSER_USER_AGENT_PREFIX = b"mozilla/"


# enforcement-point: Identity: Credentials in headers
def parse_authorization(request: PolicyRequest) -> tuple[str, str]:
    """Return (scheme in lower case, token) of the Authorization header.  ("", "") if there is none, more than one, or no token.

    `Gate <token>` and `Bearer Gate-<token>` are the scheme `gate`.  A tunnel request may use Proxy-Authorization instead (RFC 9110
    11.7.2), but not both.
    """
    names = _TUNNEL_HEADERS if request.is_tunnel else _REQUEST_HEADERS
    values = [value for name, value in request.headers if name in names]
    if len(values) != 1:
        return "", ""
    # Cached, because a client sends the same value with each request.
    return _PARSED[values[0]]


def _parse_value(raw: bytes) -> tuple[str, str]:
    value = raw.decode("latin-1").strip(" \t")
    scheme, _, token = value.partition(" ")
    scheme, token = scheme.lower(), token.lstrip(" ")
    if scheme == "bearer" and token[:5].lower() == "gate-":
        scheme, token = "gate", token[5:]
    return (scheme, token) if _TOKEN.fullmatch(token) else ("", "")


_PARSED: MemoCache[bytes, tuple[str, str]] = MemoCache(_parse_value, 4096, max_key_length=512)


def has_malformed_authorization(request: PolicyRequest) -> bool:
    """Return whether an Authorization header exists that `parse_authorization` rejects."""
    return any(name == b"authorization" for name, _ in request.headers) and parse_authorization(request) == ("", "")


def is_service_account_token(scheme: str, token: str) -> bool:
    """Return whether the token is a service account's secret.

    It is accepted in headers only, because it lives for months and URLs are logged.
    """
    return scheme in ("gate", "bearer") and token.startswith(PREFIX)


def is_agent_token(scheme: str, token: str) -> bool:
    """Return whether the token is an access token of gate's authorization server.  It is accepted in headers only (RFC 6750 2.3)."""
    return scheme == "bearer" and token.startswith(ACCESS_TOKEN_PREFIXES)


def is_account_token(token: str) -> bool:
    """Return whether this access token was issued to a service account."""
    return token.startswith(AgentTokenKind.SERVICE_ACCOUNT)


def challenge(request: PolicyRequest, accepts_bearer_tokens: bool) -> str:
    """Return the WWW-Authenticate challenge for a client whose token was rejected.  "" for a browser user, who can sign in."""
    scheme, token = parse_authorization(request)
    is_gate_token = is_service_account_token(scheme, token) or is_agent_token(scheme, token)
    return INVALID_TOKEN if is_gate_token or (accepts_bearer_tokens and scheme == "bearer") else ""


def has_gate_token(request: PolicyRequest) -> bool:
    """Return whether the request has a token issued by gate, valid or not."""
    scheme, token = parse_authorization(request)
    is_gate_token = scheme == "gate" or is_service_account_token(scheme, token) or is_agent_token(scheme, token)
    return is_gate_token or bool(parse_query_token(request))


# enforcement-point: Identity: Credentials in query strings
def parse_query_token(request: PolicyRequest) -> str:
    """Return the token of the query parameter `gate_session`.

    "" if it is absent or repeated, or if a browser sent the request.  The author of a link chooses its query, so a visitor would act as
    the author.
    """
    if QUERY_TOKEN_PARAM not in request.query or _is_browser(request):
        return ""
    values = [value for name, _, value in (pair.partition("=") for pair in request.query.split("&")) if name == QUERY_TOKEN_PARAM]
    return values[0] if len(values) == 1 else ""


def _is_browser(request: PolicyRequest) -> bool:
    """Return whether a browser sent the request, for a page, image, script or WebSocket."""
    return any(
        name.startswith(_BROWSER_HEADER_PREFIXES)
        or (name == b"accept" and b"text/html" in value.lower())
        or (name == b"user-agent" and value.strip().lower().startswith(_BROWSER_USER_AGENT_PREFIX))
        for name, value in request.headers
    )
