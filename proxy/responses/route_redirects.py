"""Redirect routes: the status and Location of their response."""

from urllib.parse import quote

from authorize.policy.policy_request import PolicyRequest
from config.routes.route import Route
from proxy.rewriting.target import PathRewrite, replaced_prefix, strip_token

DEFAULT_STATUS = 301
_DEFAULT_PORTS = {"http": 80, "https": 443}
# Reserved characters and "%" stay.  Characters that could end a header line or start an attribute are encoded.
_PATH_SAFE = "/%:@!$&'()*+,;=~-._"


def redirect_to(route: Route, request: PolicyRequest, canonical_prefix: str | None = None) -> tuple[int, str]:
    """Return the status and Location of a redirect route.

    Location always has a scheme and a host, so that no path can become a host (`//evil`).
    """
    if (redirect := route.redirect) is None:
        raise ValueError(f"{route.id} is not a redirect route")
    scheme, query = route.from_.scheme, request.query.encode("latin-1")
    new_scheme = "https" if redirect.https_redirect else redirect.scheme_redirect or scheme
    host = redirect.host_redirect or request.host
    port = redirect.port_redirect or _redirect_port(request.port, scheme, new_scheme)
    path, _, configured_query = (redirect.path_redirect or "").partition("?")
    if not path:
        path = _rewrite_path(route, redirect.prefix_rewrite, request.path, canonical_prefix)
    request_query = "" if redirect.strip_query else strip_token(query).decode("latin-1")
    location = f"{new_scheme}://{_authority(host, port, new_scheme)}{_quote_path(path)}"
    if new_query := configured_query or request_query:
        location += "?" + quote(new_query, safe=_PATH_SAFE + "?[]")
    return redirect.response_code or DEFAULT_STATUS, location


def _rewrite_path(route: Route, replacement: str | None, path: str, canonical_prefix: str | None) -> str:
    return path if replacement is None else PathRewrite(replaced_prefix(route, canonical_prefix), replacement).apply(path)


def _redirect_port(port: int | None, old_scheme: str, new_scheme: str) -> int | None:
    """Return the port, or None if the scheme changes and the port is the default of the old one."""
    return None if new_scheme != old_scheme and port == _DEFAULT_PORTS.get(old_scheme) else port


def _authority(host: str, port: int | None, scheme: str) -> str:
    name = quote(host, safe="-._~:[]")
    if ":" in name and not name.startswith("["):
        name = f"[{name}]"
    return name if port in (None, _DEFAULT_PORTS.get(scheme)) else f"{name}:{port}"


def _quote_path(path: str) -> str:
    return quote(path if path.startswith("/") else "/" + path, safe=_PATH_SAFE)
