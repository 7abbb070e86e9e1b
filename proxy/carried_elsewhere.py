"""What must hold of a request that another proxy will carry, which only asks us?"""

from collections.abc import Sequence

from gateproject.config.route import Route
from gateproject.errors import BadRequest
from proxy.forwarding.handshake import PREFIX, require_known_origin
from proxy.headers import Header
from proxy.own_paths import is_own_page
from proxy.rewrite import without_token

NOT_IN_A_VERDICT = "the front proxy must pass /.gate/ to gate instead of asking about it"


class Refused(BadRequest):
    status = 403


def require_not_ours(path: str) -> None:
    """What the end of a sign-in brings to our own pages is nothing for an application to read."""
    if is_own_page(path):
        raise Refused(NOT_IN_A_VERDICT)


def require_no_token(query: str) -> None:
    """Whoever forwards it forwards its query as it stands, and an application must not learn a token."""
    raw = query.encode("latin-1")
    if without_token(raw) != raw:
        raise Refused("its query carries a token, which only an Authorization header can carry past another proxy")


def is_websocket(headers: Sequence[Header]) -> bool:
    """Front proxies take `Upgrade` and `Connection` out of what they ask, as they must.  `Sec-WebSocket-*` every browser sends."""
    return any(name.startswith(PREFIX) or (name == b"upgrade" and b"websocket" in value.lower()) for name, value in headers)


def require_websocket_may_open(headers: Sequence[Header], own_origin: str, route: Route) -> None:
    if not route.allow_websockets:
        raise Refused("this application's route carries no websockets")
    require_known_origin([value for name, value in headers if name == b"origin"], own_origin, route.websocket_origins)
