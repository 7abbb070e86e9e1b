"""What a refused client sees, by its kind: a redirect to sign in, a page, JSON for scripts, a status for the rest."""

from collections.abc import Callable

from authorize import carriers
from authorize.client import Check, Withheld
from authorize.policy.decision import Decision, Outcome
from authorize.policy.explain import sentence
from authorize.policy.identity import Identity
from gateproject import challenges
from gateproject.config.options import Options
from proxy.answers import Headers, send_error, send_redirect, send_unknown_address
from proxy.incoming import Incoming, Send
from proxy.kept_forms import Kept, NotKept
from proxy.sign_in import SignInRedirects, return_url, step_up_challenge
from proxy.sign_in_loops import SignInLoops

NOT_GOOD = "The token in the Authorization header is not good here."
NOT_GOOD_ADVICE = "It may have expired, been replaced or revoked, or be meant for somebody else."
SIGN_IN_ADVICE = "Sign in, then try again."
TUNNEL_ADVICE = "Send `Authorization: Gate <token>`; `manage.py tunnel {}` signs you in with a browser and does that."
FORBIDDEN_ADVICE = "If you should have access, ask the people who run this application to let you in."
CERTIFICATE_ADVICE = "Choose the certificate that you were given for this application, or ask the people who run it for one."
# Below /.gate/ of the authenticate host (authorize/admin.py).
EXPLANATION = "admin/authorize/loggeddecision/explain/?request="

NOT_KEPT = "You are not signed in any more, so what you sent has not arrived; and it could not be kept for you, because {}."
NOT_KEPT_ADVICE = "Go back and copy what you wrote, before you sign in."

LOOP = "You were signed in several times in a row, and each time your session was gone again."
LOOP_ADVICE = (
    "Your browser may be blocking or clearing cookies for this site; a private window or an extension can do that. "
    "If it goes on, the people who run this site find the cause in the log with the request id below."
)


class Refusals:
    def __init__(
        self,
        options: Options,
        is_route_origin: Callable[[str], bool],
        may_administer: Callable[[Identity], bool] = lambda identity: False,
        has_tunnels_at: Callable[[str], bool] = lambda host: False,
    ):
        own = f"{options.authenticate_service_url.origin}/.gate/"
        self._links = (("Who am I signed in as?", own), ("Sign in as somebody else", f"{own}signout/"))
        self._sign_in = SignInRedirects(options)
        self._loops = SignInLoops(options)
        self._is_route_origin = is_route_origin
        self._may_administer = may_administer
        self._has_tunnels_at = has_tunnels_at
        self._explanation = f"{own}{EXPLANATION}"

    async def send(self, incoming: Incoming, check: Check, send: Send, now: float, form: Kept | NotKept | None = None) -> int:
        """Answer, and return the status.  `form` is what became of a form that came without a session."""
        decision = check.decision
        match decision.outcome:
            case Outcome.SIGN_IN | Outcome.STEP_UP:
                if check.challenge:
                    return await self._token_refused(incoming, check, send)
                return await self._not_signed_in(incoming, check, send, now, form)
            case Outcome.FORBIDDEN:
                advice, extra = f"{_signed_in_as(check.identity)}{FORBIDDEN_ADVICE}", self._cors(incoming, decision)
                if check.withheld is Withheld.AUTHORIZATION:
                    extra.append((b"www-authenticate", challenges.TOO_LITTLE.encode()))
                await send_error(
                    incoming,
                    send,
                    403,
                    sentence(decision),
                    advice=advice,
                    links=self._links_for(incoming, check.identity),
                    extra_headers=extra,
                )
                return 403
            case Outcome.CERTIFICATE:
                # Only a new connection can show another certificate.
                extra = [(b"connection", b"close"), *self._cors(incoming, decision)]
                await send_error(incoming, send, 495, sentence(decision), advice=CERTIFICATE_ADVICE, extra_headers=extra)
                return 495
            case _:
                await send_unknown_address(incoming, send, has_tunnels=self._has_tunnels_at(incoming.request.host))
                return 404

    def _links_for(self, incoming: Incoming, identity: Identity | None) -> tuple[tuple[str, str], ...]:
        """Nobody else can open the explanation, so nobody else is led to it."""
        if identity is None or not self._may_administer(identity):
            return self._links
        return (("Why? The whole explanation, for administrators", f"{self._explanation}{incoming.request_id}"), *self._links)

    async def _token_refused(self, incoming: Incoming, check: Check, send: Send) -> int:
        extra = [(b"www-authenticate", check.challenge.encode()), *self._cors(incoming, check.decision)]
        await send_error(incoming, send, 401, NOT_GOOD, advice=NOT_GOOD_ADVICE, extra_headers=extra)
        return 401

    async def _not_signed_in(self, incoming: Incoming, check: Check, send: Send, now: float, form: Kept | NotKept | None) -> int:
        if not incoming.may_be_sent_elsewhere:
            await self.unauthorized(incoming, check, send)
            return 401
        decision = check.decision
        scheme = decision.route.route.from_.scheme if decision.route else "https"
        if self._loops.is_looping(incoming.cookies, incoming.request.host_port, now):
            return await self._loop(incoming, scheme, send)
        if isinstance(form, NotKept):
            links = (("Sign in", return_url(incoming, scheme)),)
            await send_error(incoming, send, 401, NOT_KEPT.format(form.reason), advice=NOT_KEPT_ADVICE, links=links)
            return 401
        route = decision.route.route if decision.route else None
        location, set_cookies = self._sign_in.begin(incoming, scheme, now, route, own_page=form.path if form else "")
        set_cookies += [form.set_cookie] if form else []
        await send_redirect(incoming, send, location, set_cookies=set_cookies)
        return 302

    async def unauthorized(self, incoming: Incoming, check: Check, send: Send) -> None:
        """401 for who can't be led to a sign-in: programs, and proxies that ask."""
        decision = check.decision
        reason, challenge = "You are not signed in.", challenges.NOBODY
        if decision.outcome is Outcome.STEP_UP and decision.route is not None:
            reason = sentence(decision)
            challenge = step_up_challenge(decision.route.route, decision.trace[-1].reason.value)
        elif incoming.is_connect:
            # What the program does next stands in docs/tcp.md.
            error = "invalid_token" if carriers.shows_token_of_ours(incoming.request) else ""
            challenge = challenges.challenge("Gate", realm=incoming.request.host_port, error=error)
        elif carriers.shows_token_of_ours(incoming.request):
            challenge = challenges.BAD_TOKEN
        extra = [(b"www-authenticate", challenge.encode("ascii")), *self._cors(incoming, decision)]
        advice = TUNNEL_ADVICE.format(incoming.request.host_port) if incoming.is_connect else SIGN_IN_ADVICE
        await send_error(incoming, send, 401, reason, advice=advice, extra_headers=extra)

    async def _loop(self, incoming: Incoming, scheme: str, send: Send) -> int:
        links = (("Try again", return_url(incoming, scheme)), *self._links[:1])
        extra = [(b"set-cookie", self._loops.clear().encode())]
        await send_error(incoming, send, 400, LOOP, advice=LOOP_ADVICE, links=links, extra_headers=extra)
        return 400

    def _cors(self, incoming: Incoming, decision: Decision) -> Headers:
        """A script may read why it was refused where the route lets its origin in, or where that origin is a route of ours."""
        origin = incoming.header(b"origin")
        if not origin or not incoming.is_script:
            return []
        route_allows = decision.route is not None and decision.route.route.cors_allow_preflight
        if not (route_allows or self._is_route_origin(origin)):
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-allow-credentials", b"true"),
            (b"access-control-expose-headers", b"WWW-Authenticate, Retry-After"),
            (b"vary", b"Origin"),
        ]


def _signed_in_as(identity: Identity | None) -> str:
    return f"You are signed in as {identity.shown_as}. " if identity is not None else ""
