"""Post-logout redirect: one page of ours, registered once at the provider, whose `state` says where the browser goes on."""

from authenticate.redirect_targets import IsRouteOrigin, RedirectTargets
from config.options import Options
from foundation.crypto.sealing import Sealer
from foundation.errors import SealError

PATH = "/.gate/signed_out"
# A provider may ask whether somebody means it, and they may have coffee first.
LIFETIME = 3600.0
MAX_URL = 2000


class PostLogoutRedirect:
    """`post_logout_redirect_uri` (OpenID Connect RP-Initiated Logout 1.0), always our own page: providers compare it character by
    character.
    """

    def __init__(self, options: Options, targets: RedirectTargets):
        self._sealer = Sealer(options.cookie_secret, "after sign-out")
        self._origin = options.authenticate_service_url.origin
        self._own_page = self._origin + PATH
        self._default = str(options.signout_redirect_url or "")
        self._targets = targets

    def url(self, wanted: str, is_route_origin: IsRouteOrigin) -> str:
        """The URL to go on to: `wanted` where it is ours, else what the operator has set, "" for nothing."""
        target = self._targets.target(wanted, is_route_origin)
        return target.short(MAX_URL) if target is not None else self._default

    def params(self, url: str, now: float) -> dict[str, str]:
        """Parameters of the logout request; without a `url` none: the provider's own page says that it is done.

        Most providers refuse, instead of signing out, where our page is not registered with them.
        """
        if not url:
            return {}
        if url == self._own_page:
            return {"post_logout_redirect_uri": url}
        state = self._sealer.seal({"to": url}, audience=self._origin, expires_at=now + LIFETIME)
        return {"post_logout_redirect_uri": self._own_page, "state": state}

    def url_of(self, state: str, is_route_origin: IsRouteOrigin, now: float) -> str:
        """Return the URL that a `state` names, "" for our own page; the default where it names none that is ours."""
        try:
            wanted = str(self._sealer.open(state, audience=self._origin, now=now)["to"])
        except SealError:
            wanted = ""
        url = self.url(wanted, is_route_origin)
        return "" if url == self._own_page else url
