"""Route links: the ids by which pages name routes to users."""

import hashlib
import hmac

from config.options import Options
from config.routes.route import Route
from foundation.crypto.sealing import derive_key


class RouteLinks:
    """Ids of routes in links and forms: 16 hex digits of HMAC-SHA256, keyed by `shared_secret`.

    `Route.id` is a plain hash of the route and its upstreams. A user who had it could test guesses of an upstream's address.
    """

    def __init__(self, options: Options):
        self._key = derive_key(options.shared_secret[0], "route links")

    def id_of(self, route: Route) -> str:
        return hmac.new(self._key, route.id.encode(), hashlib.sha256).hexdigest()[:16]
