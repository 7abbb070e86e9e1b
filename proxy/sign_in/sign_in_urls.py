"""Sign-in redirects: the URL of the authenticate service, and the attempt that binds the way back to the browser."""

from collections.abc import Iterable

from config.options import Options
from config.routes.route import Route
from foundation.auth_challenges import challenge
from foundation.crypto.handoff import ROUTE_CALLBACK_PATH
from foundation.crypto.session_cookie import SessionCookies
from foundation.crypto.sign_in_attempts import SignInAttempts
from foundation.crypto.signed_urls import UrlSigner
from proxy.incoming_request import IncomingRequest
from proxy.rewriting.target import strip_token

# Characters, because the provider attempt's cookie contains the URL, and browsers accept cookies up to 4,096 bytes (RFC 6265 6.1).
MAX_REQUESTED_URL = 2000


class SignInUrls:
    def __init__(self, options: Options):
        self._sign_in_url = f"{options.authenticate_service_url.origin}/.gate/sign_in"
        self._signer = UrlSigner(options)
        self._attempts = SignInAttempts(options, "route")
        self._session_cookies = SessionCookies(options)

    def start(
        self, incoming: IncomingRequest, scheme: str, now: float, route: Route | None = None, *, return_path: str = ""
    ) -> tuple[str, list[str]]:
        """Start a sign-in.  Return the Location, a signed URL of the authenticate service, and the Set-Cookie values.

        The cookies are this browser's attempt, and deletions of conflicting session cookies.  The sign-in leads back to the requested
        URL, or to `return_path` on this host.  The route's sign-in requirements are passed to the provider, and checked again by the
        route.
        """
        host_port = incoming.request.host_port
        attempt_id, set_cookies = self._attempts.start({}, host_port, incoming.cookie_headers, now)
        set_cookies += self._session_cookies.clear_conflicting(incoming.cookie_headers, host_port, incoming.request.path)
        params = {
            "gate_redirect_uri": f"{scheme}://{host_port}{return_path}" if return_path else requested_url(incoming, scheme),
            "gate_attempt": attempt_id,
            **_requirement_params(route),
        }
        return self._signer.sign(self._sign_in_url, params, now), set_cookies

    def for_client(self, origin: str, redirect_uri: str, now: float, route: Route | None = None, providers: Iterable[str] = ()) -> str:
        """Return the URL that a client application opens in the user's browser, where the user consents; valid for five minutes.

        `route` sets the sign-in requirements.  Without a route, `providers` are those of the host.
        """
        params = {"gate_redirect_uri": redirect_uri, "gate_callback_uri": f"{origin}{ROUTE_CALLBACK_PATH}", "gate_programmatic": "true"}
        provider_params = {} if route is not None else _provider_params(providers)
        return self._signer.sign(self._sign_in_url, params | _requirement_params(route) | provider_params, now)


def _requirement_params(route: Route | None) -> dict[str, str]:
    params: dict[str, str] = {}
    if route is not None and route.acr_values:
        params["gate_acr_values"] = " ".join(route.acr_values)
    if route is not None and route.max_age is not None:
        params["gate_max_age"] = str(int(route.max_age.total_seconds()))
    return params | _provider_params(route.identity_providers if route is not None else ())


def _provider_params(providers: Iterable[str]) -> dict[str, str]:
    return {"gate_providers": ids} if (ids := " ".join(providers)) else {}


def step_up_challenge(route: Route, reason: str) -> str:
    """Return the WWW-Authenticate challenge for a client that needs a stronger sign-in of its user (RFC 9470)."""
    params = {name.removeprefix("gate_"): value for name, value in _requirement_params(route).items() if name != "gate_providers"}
    return challenge(error="insufficient_user_authentication", error_description=reason, **params)


def requested_url(incoming: IncomingRequest, scheme: str) -> str:
    """Return the requested URL without tokens.  If it is too long for a cookie, it loses its query, then its path."""
    request = incoming.request
    origin = f"{scheme}://{request.host_port}"
    # Because a token that was not accepted is still a secret.
    forwarded_query = strip_token(request.query.encode("latin-1")).decode("latin-1")
    query = f"?{forwarded_query}" if forwarded_query else ""
    for url in (f"{origin}{request.path}{query}", f"{origin}{request.path}"):
        if len(url) <= MAX_REQUESTED_URL:
            return url
    return f"{origin}/"
