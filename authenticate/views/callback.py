"""Callback page, where the provider sends the browser back: a session, or a page that says why there is none."""

from dataclasses import replace
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse

from authenticate.provider.claim_limits import ClaimsTooLarge
from authenticate.provider.django_oidc import CodeRefused, GateCallbackView, ScopeReduced
from authenticate.provider.sign_in_result import AskedAnother
from authenticate.provider.token_response import cleaned
from authenticate.redirect_targets import RedirectTarget
from authenticate.service import AuthenticateService, page_context
from authenticate.step_up import UNMET, UNTOLD, WEAK, StepUpRequest
from authenticate.views import view_helpers
from authenticate.views.authorization_request import SignInAttempt, redirect_to_provider
from databroker.audit_log import AuditAction, session_entry
from databroker.records import SessionRecord
from foundation.errors import BadRequest, ProviderError
from foundation.web import responses
from foundation.web.message import Message

log = structlog.get_logger(__name__)

DASHBOARD = "/.gate/"
MAX_ERROR = 64  # characters of the provider's error code that the log shows


class CallbackView(GateCallbackView):
    """The pages of each outcome of a sign-in."""

    service: AuthenticateService

    async def get(self, request: HttpRequest) -> HttpResponse:
        try:
            with view_helpers.sign_in_slot(request, self.find_attempt(request.GET.get("state", "")).get("provider", "")):
                return await super().get(request)
        except view_helpers.TooManySignIns:
            return view_helpers.too_many_sign_ins(request)
        except CodeRefused as error:
            self._tell(str(error))
            return self._start_again(Message("The identity provider no longer accepts this sign-in. It may have taken too long."))
        except AskedAnother as error:
            self._tell(str(error))
            return await self.login_stale()
        except BadRequest as error:
            self._tell(str(error))
            raise
        except ScopeReduced as error:
            return self._less_scope(error)
        except ClaimsTooLarge as error:
            return self._too_large(error)
        except ProviderError as error:
            return self._and_forget(view_helpers.provider_trouble(request, error, self._target_url()))

    def _less_scope(self, error: ScopeReduced) -> HttpResponse:
        self._tell(str(error))
        response = responses.error_page(
            self.request,
            403,
            Message("The identity provider did not grant a required permission: %(scopes)s.", scopes=error.missing),
            advice=Message("Sign in again and grant all permissions that the identity provider asks for."),
            links=((view_helpers.SIGN_IN_AGAIN[0], self._target_url()),),
        )
        return self._and_forget(response)

    def _too_large(self, error: ClaimsTooLarge) -> HttpResponse:
        self._tell(str(error))
        response = responses.error_page(
            self.request,
            403,
            Message("The identity provider sends more data about you than this site accepts."),
            advice=Message("Signing in again does not help. Contact your administrator and include the request id below."),
        )
        return self._and_forget(response)

    def find_attempt(self, state: str) -> dict[str, Any]:
        self.state = state
        service = self.service
        return service.attempts.find(state, view_helpers.cookie_headers(self.request), service.host_port, service.clock()) or {}

    async def login_stale(self) -> HttpResponse:
        """A reload, a "back", a bookmark, or somebody else's link: who is signed in just continues, others start again."""
        service = self.service
        session = await service.sessions.find(view_helpers.cookie_headers(self.request), service.host_port, service.clock())
        if session is None:
            return self._start_again(Message("This sign-in has expired, was already completed, or was started in another browser."))
        target = self._target()
        return responses.redirect(service.redirects.return_location(session, target, self.attempt["attempt"]) if target else DASHBOARD)

    def login_failure(self, error: str, description: str = "") -> HttpResponse:
        """The provider's error.  Its description is for the log alone: whoever sends the browser here writes it, and a page of ours
        would lend it our name.
        """
        words = cleaned(description)
        self._tell(f"the provider returned {cleaned(error)[:MAX_ERROR]!r}" + (f" ({words})" if words else ""))
        if error == UNMET:
            return self._too_weak(WEAK)
        if error != "access_denied":
            return self._start_again(Message("The identity provider could not sign you in."))
        response = responses.error_page(
            self.request,
            401,
            Message("The sign-in was cancelled, or your account at the identity provider may not use this site."),
            advice=Message("Try again, or use another account."),
            links=((view_helpers.TRY_AGAIN, self._target_url()),),
        )
        return self._and_forget(response)

    async def login_success(self) -> HttpResponse:
        service, request = self.service, self.request
        # Before there is a session: the first request already finds the groups.
        await service.directory.look_up(self.signed_in.user.id, self.signed_in.tokens.access_token)
        now = service.clock()
        asked = StepUpRequest.from_attempt(self.attempt)
        if shortfall := asked.shortfall(self.signed_in.user.claims, now, now):
            return await self._weaker(asked, shortfall)
        session = await service.sessions.create(
            self.signed_in,
            now,
            before=await service.sessions.find(view_helpers.cookie_headers(request), service.host_port, now),
            client_address=page_context(request).client_address,
            user_agent=request.headers.get("User-Agent", ""),
            attempts={self.state, *service.attempts.active_ids(view_helpers.cookie_headers(request), service.host_port, now)},
        )
        # Asked when the session is there: a deactivation meanwhile either found it, or is found here.
        if await service.is_deactivated(session):
            await service.sessions.end(session)
            return self._deactivated()
        target = self._target()
        await self._end_oldest(session, now)
        location = service.redirects.return_location(session, target, self.attempt["attempt"]) if target else DASHBOARD
        planted = service.sessions.clear_conflicting(view_helpers.cookie_headers(request), service.host_port, request.path)
        cookies = [*planted, *service.sessions.set_cookies(session, service.host_port, now), service.attempts.clear(self.state)]
        cookies += service.choice.remembered(session.provider) if "chosen" in self.attempt else []
        return responses.redirect(location, cookies)

    async def _end_oldest(self, session: SessionRecord, now: float) -> None:
        gate, service = page_context(self.request), self.service
        for ended in await service.sessions.end_oldest(session, now):
            entry = session_entry(now, session, gate.options.providers, gate.client_address, AuditAction.END_OLDEST_SESSION, ended)
            await service.audit_trail.note(entry)

    def _deactivated(self) -> HttpResponse:
        self._tell("the provider deactivated this user (SCIM)")
        reason, advice = Message("Your account is deactivated."), Message("If this is a mistake, contact your administrator.")
        return self._and_forget(responses.error_page(self.request, 403, reason, advice=advice))

    async def _weaker(self, asked: StepUpRequest, shortfall: str) -> HttpResponse:
        """A sign-in that falls short: once more, and then the provider must ask the person; after that a page, never a third time.  The
        session stays as it was.
        """
        if shortfall == UNTOLD:
            return self._untold()
        target = self._target()
        if target is not None and not asked.is_pressed:
            attempt = SignInAttempt(target, self.attempt["attempt"], self.signed_in.provider, replace(asked, is_pressed=True))
            return self._and_forget(await redirect_to_provider(self.request, self.service, attempt))
        return self._too_weak(shortfall)

    def _untold(self) -> HttpResponse:
        """The page for `auth_time` asked for and not given (OpenID Connect Core 3.1.3.7): the provider does not say it, or the request
        was changed on its way.
        """
        self._tell(
            "the provider returned no auth_time in the ID token despite max_age. Configure it to send auth_time, "
            "or remove max_age from the route (docs/guides/identity-providers/README.md)"
        )
        response = responses.error_page(
            self.request,
            403,
            UNTOLD,
            advice=Message("Try again. If the problem continues, your administrator must check the settings of the identity provider."),
            links=((view_helpers.TRY_AGAIN, self._target_url()), (Message("View my account"), DASHBOARD)),
        )
        return self._and_forget(response)

    def _too_weak(self, shortfall: str) -> HttpResponse:
        self._tell(shortfall)
        response = responses.error_page(
            self.request,
            403,
            shortfall,
            advice=Message(
                "Try again and choose a stronger sign-in method if one is offered. "
                "Otherwise ask your administrator which method this application requires."
            ),
            links=((view_helpers.TRY_AGAIN, self._target_url()), (Message("View my account"), DASHBOARD)),
        )
        return self._and_forget(response)

    def _target(self) -> RedirectTarget | None:
        """The redirect target, judged anew: the routes may have changed since the attempt began."""
        if not self.attempt:
            return None
        return self.service.targets.target(self.attempt["to"], page_context(self.request).authorize.is_route_origin)

    def _target_url(self) -> str:
        target = self._target()
        return str(target) if target is not None else DASHBOARD

    def _start_again(self, reason: str) -> HttpResponse:
        links = ((Message("Start again"), self._target_url()),)
        return self._and_forget(responses.error_page(self.request, 400, reason, advice=view_helpers.START_AGAIN, links=links))

    def _tell(self, reason: str) -> None:
        log.warning("sign-in refused", reason=reason, request_id=page_context(self.request).request_id)

    def _and_forget(self, response: HttpResponse) -> HttpResponse:
        return responses.with_cookies(response, [self.service.attempts.clear(self.state)] if self.attempt else [])


@view_helpers.errors_as_pages
async def callback(request: HttpRequest) -> HttpResponse:
    return await CallbackView.as_view(service=page_context(request).authenticate)(request)
