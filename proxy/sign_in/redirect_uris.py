"""Redirect URIs of programmatic login: the addresses to which gate may send a token."""

import re
from urllib.parse import unquote_plus

from config.options import Options
from foundation.values import parse_ip

JWT_PARAM = "gate_jwt"
LOCALHOST = "localhost"
# Characters, because sealed URLs contain it, one of them in a cookie of 4 KiB.
MAX_LENGTH = 800
MAX_PORT = 65535

# Stricter than RFC 3986, so that all URL parsers interpret a redirect URI in the same way.
_URL = re.compile(
    r"(?P<scheme>https?)://"
    r"(?:(?P<name>[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?)|\[(?P<address>[0-9a-f:.]+)\])"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"(?:/[!$-;=?-\[\]_a-z~]*)?",
    re.ASCII | re.IGNORECASE,
)


# enforcement-point: Sign-in and sign-out: Redirects of programmatic login
class RedirectUriAllowlist:
    """Redirect URIs that client applications may use, on the hosts of `programmatic_redirect_domain_whitelist`.

    They use https; http is for loopback addresses only.  `localhost` in the list allows all loopback addresses.
    """

    def __init__(self, options: Options):
        self._hosts = frozenset(host.lower() for host in options.programmatic_redirect_domain_whitelist)

    def validate(self, url: str) -> str | None:
        """Return the redirect URI if it is allowed, otherwise None."""
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
    """Return whether the URL already has a token parameter, which the client application might read instead of gate's."""
    return any(unquote_plus(pair.partition("=")[0]) == JWT_PARAM for pair in url.partition("?")[2].split("&"))


def _is_loopback(host: str) -> bool:
    if host == LOCALHOST:
        return True
    address = parse_ip(host)
    return address is not None and address.is_loopback
