"""Post-logout redirect: one page, registered once at the provider, whose `state` contains the final target."""

from authenticate.redirect_targets import IsRouteOrigin, RedirectTargets
from config.options import Options
from foundation.crypto.sealing import Sealer
from foundation.errors import SealError

PATH = "/.gate/signed_out"
# Seconds; a provider may ask the user for confirmation first.
LIFETIME = 3600.0
MAX_URL = 2000


class PostLogoutRedirect:
    """`post_logout_redirect_uri` (OpenID Connect RP-Initiated Logout 1.0).

    It is always gate's page, because providers compare it exactly with the registered one.
    """

    def __init__(self, options: Options, targets: RedirectTargets):
        self._sealer = Sealer(options.cookie_secret, "after sign-out")
        self._origin = options.authenticate_service_url.origin
        self._page_url = self._origin + PATH
        self._default = str(options.signout_redirect_url or "")
        self._targets = targets

    def resolve(self, requested: str, is_route_origin: IsRouteOrigin) -> str:
        """Return the final target: `requested` if it is on a host of gate, else the configured default, "" for none."""
        target = self._targets.resolve(requested, is_route_origin)
        return target.truncated(MAX_URL) if target is not None else self._default

    def params(self, url: str, now: float) -> dict[str, str]:
        """Return the parameters of the logout request, none without a `url`: the provider then shows its page.

        Most providers reject the logout if the page is not registered with them.
        """
        if not url:
            return {}
        if url == self._page_url:
            return {"post_logout_redirect_uri": url}
        state = self._sealer.seal({"to": url}, audience=self._origin, expires_at=now + LIFETIME)
        return {"post_logout_redirect_uri": self._page_url, "state": state}

    def resolve_state(self, state: str, is_route_origin: IsRouteOrigin, now: float) -> str:
        """Return the target in a `state`, "" for gate's page; the default if the state is invalid or its target is not allowed."""
        try:
            requested = str(self._sealer.open(state, audience=self._origin, now=now)["to"])
        except SealError:
            requested = ""
        url = self.resolve(requested, is_route_origin)
        return "" if url == self._page_url else url
