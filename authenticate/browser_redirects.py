"""Browser redirects between the authenticate host, the route hosts and client applications."""

from collections.abc import Callable

from authenticate.page_paths import SIGN_IN_PATH
from authenticate.redirect_targets import RedirectTarget, RedirectTargets
from config.options import Options
from databroker.records import SessionRecord
from foundation.crypto.handoff import HANDOFF_PARAM, ROUTE_CALLBACK_PATH, TO_CLIENT_APPLICATION, HandoffTokens
from foundation.crypto.signed_urls import UrlSigner


class BrowserRedirects:
    """Signed URLs and handoff tokens of one set of options."""

    def __init__(self, options: Options, signer: UrlSigner, targets: RedirectTargets, clock: Callable[[], float]):
        self._origin = options.authenticate_service_url.origin
        self._signer = signer
        self._targets = targets
        self._clock = clock
        self._handoffs = HandoffTokens(options)
        self._programmatic_handoffs = HandoffTokens(options, TO_CLIENT_APPLICATION)

    def sign_in_url(self, path: str, **step_up: str) -> str:
        """Return the sign-in URL for a page of the authenticate host. Sign-in leads back to `path`.

        `step_up` are the parameters of a step-up request.
        """
        params = {"gate_redirect_uri": self._origin + path, **step_up}
        return self._signer.sign(self._origin + SIGN_IN_PATH, params, self._clock())

    def verify_sign_in_url(self, query: str) -> dict[str, str]:
        """Return the parameters of a signed sign-in URL with this query. Raises UrlExpired or SealError."""
        return self._signer.verify(f"{self._origin}{SIGN_IN_PATH}?{query}", self._clock())

    def handoff_location(self, session: SessionRecord, target: RedirectTarget, route_attempt_id: str) -> str:
        """Return the Location for the browser after sign-in.

        A page of the authenticate host is the location itself. A route host gets the session through a handoff token.
        """
        if self._targets.is_authenticate_page(target):
            return str(target)
        token = self._handoffs.seal(session.id, route_attempt_id, target.host_port, str(target), self._clock())
        return f"{target.origin}{ROUTE_CALLBACK_PATH}?{HANDOFF_PARAM}={token}"

    def programmatic_location(self, session: SessionRecord, route: RedirectTarget, redirect_uri: str) -> str:
        """Return the Location after consent to a client application.

        It leads to the route host, which issues the application's token and redirects to the application.
        """
        token = self._programmatic_handoffs.seal(session.id, "", route.host_port, redirect_uri, self._clock())
        return f"{route.origin}{ROUTE_CALLBACK_PATH}?gate_programmatic=true&{HANDOFF_PARAM}={token}"
