"""Redirect URIs of programmatic login: where a token may go.  The only door for them."""

import re
from urllib.parse import unquote_plus

from config.options import Options
from foundation.values import parse_ip

JWT_PARAM = "gate_jwt"
LOCALHOST = "localhost"
# It travels in sealed URLs, one of them inside a cookie of 4 KiB.
MAX_LENGTH = 800
MAX_PORT = 65535

# Stricter than RFC 3986 on purpose: what two URL parsers could read differently is no redirect URI.
_URL = re.compile(
    r"(?P<scheme>https?)://"
    r"(?:(?P<name>[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?)|\[(?P<address>[0-9a-f:.]+)\])"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"(?:/[!$-;=?-\[\]_a-z~]*)?",
    re.ASCII | re.IGNORECASE,
)


# enforcement-point: Sign-in and sign-out: Redirects of programmatic login
class RedirectUriAllowlist:
    """Programs' redirect URIs.  `programmatic_redirect_domain_whitelist`: whole hosts.  https, or http on this machine's own addresses."""

    def __init__(self, options: Options):
        self._hosts = frozenset(host.lower() for host in options.programmatic_redirect_domain_whitelist)

    def validate(self, url: str) -> str | None:
        """Redirect URI, where a token may go there; None otherwise."""
        match = _URL.fullmatch(url) if len(url) <= MAX_LENGTH else None
        if match is None or int(match["port"] or 1) > MAX_PORT or _has_token_param(url):
            return None
        host = (match["name"] or match["address"]).lower()
        is_local = _is_loopback(host)
        if match["scheme"].lower() == "http" and not is_local:
            return None
        return url if host in self._hosts or (is_local and LOCALHOST in self._hosts) else None


def append_token(redirect_uri: str, token: str) -> str:
    return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{JWT_PARAM}={token}"


def _has_token_param(url: str) -> bool:
    """The program would find two, and take whichever it reads first."""
    return any(unquote_plus(pair.partition("=")[0]) == JWT_PARAM for pair in url.partition("?")[2].split("&"))


def _is_loopback(host: str) -> bool:
    if host == LOCALHOST:
        return True
    address = parse_ip(host)
    return address is not None and address.is_loopback
