"""Where, other than in a cookie, does a request carry a credential?  Readings only: whether it is any good is for others."""

import re

from authorize.policy.request import AccessRequest
from gateproject.crypto.service_account_token import PREFIX

NOT_GOOD = 'Bearer realm="gate", error="invalid_token"'

# Whatever is read here is taken out before a request is forwarded; proxy/headers.py and proxy/rewrite.py are more lenient readers.
_TOKEN = re.compile(r"[A-Za-z0-9_.~+/-]+=*", re.ASCII)  # RFC 6750 2.1
_OF_A_REQUEST = (b"authorization",)
_OF_A_TUNNEL = (b"authorization", b"proxy-authorization")
_QUERY_NAME = "gate_session"
# A page of another site that leads a browser here chooses the query: its visitor would act as whoever made the link.
_FOREIGN_SITES = (b"cross-site", b"same-site")


def authorization_of(request: AccessRequest) -> tuple[str, str]:
    """(scheme in lower case, the token) of the one Authorization header; ("", "") where there is none, several, or no token.

    `Gate <token>` and `Bearer Gate-<token>` are one scheme, `gate`.  Who asks for a tunnel may speak to us as to a proxy (RFC 9110
    11.7.2), and has one credential all the same.
    """
    names = _OF_A_TUNNEL if request.is_tunnel else _OF_A_REQUEST
    given = [value for name, value in request.headers if name in names]
    if len(given) != 1:
        return "", ""
    value = given[0].decode("latin-1").strip(" \t")
    scheme, _, token = value.partition(" ")
    scheme, token = scheme.lower(), token.lstrip(" ")
    if scheme == "bearer" and token[:5].lower() == "gate-":
        scheme, token = "gate", token[5:]
    return (scheme, token) if _TOKEN.fullmatch(token) else ("", "")


def is_service_account(scheme: str, token: str) -> bool:
    """In a header alone: it lives for months, and URLs end up in logs."""
    return scheme in ("gate", "bearer") and token.startswith(PREFIX)


def challenge(request: AccessRequest, takes_bearers: bool) -> str:
    """What WWW-Authenticate says to a program whose token let nobody in; "" for a person, who may sign in."""
    scheme, token = authorization_of(request)
    return NOT_GOOD if is_service_account(scheme, token) or (takes_bearers and scheme == "bearer") else ""


def query_token_of(request: AccessRequest) -> str:
    """The value of the one `gate_session` in the query; "" where there is none, or several."""
    if _QUERY_NAME not in request.query or _is_led_here(request):
        return ""
    values = [value for name, _, value in (pair.partition("=") for pair in request.query.split("&")) if name == _QUERY_NAME]
    return values[0] if len(values) == 1 else ""


def _is_led_here(request: AccessRequest) -> bool:
    return any(name == b"sec-fetch-site" and value.strip().lower() in _FOREIGN_SITES for name, value in request.headers)
