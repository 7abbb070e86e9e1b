"""Callback page: the provider's authorization response becomes a session or an error page."""

from dataclasses import replace
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse

from authenticate.provider.claim_limits import ClaimsTooLarge
from authenticate.provider.django_oidc import GateCallbackView, InvalidCode, ScopesNotGranted
from authenticate.provider.sign_in_result import ProviderMismatch
from authenticate.provider.tokens.token_response import sanitize
from authenticate.redirect_targets import RedirectTarget
from authenticate.service import AuthenticateService, page_context
from authenticate.step_up import ACR_NOT_MET, AUTH_TIME_MISSING, UNMET_REQUIREMENTS_ERROR, StepUpRequest
from authenticate.views import view_helpers
from authenticate.views.authorization_request import SignInAttempt, redirect_to_provider
from authenticate.views.oauth.agent_callback import complete_authorization
from databroker.audit_log import AuditAction, session_entry
from databroker.records import SessionRecord
from foundation.errors import BadRequest, ProviderError
from foundation.web import responses
from foundation.web.message import Message

log = structlog.get_logger(__name__)

PORTAL = "/.gate/"
MAX_ERROR = 64  # characters of the provider's error code in the log


class CallbackView(GateCallbackView):
    """Pages for each outcome of a sign-in."""

    service: AuthenticateService

    async def get(self, request: HttpRequest) -> HttpResponse:
        try:
            with view_helpers.sign_in_slot(request, self.find_attempt(request.GET.get("state", "")).get("provider", "")):
                return await super().get(request)
        except view_helpers.TooManySignIns:
            return view_helpers.too_many_sign_ins_page(request)
        except InvalidCode as error:
            self._log_refusal(str(error))
            return self._restart_page(Message("The identity provider no longer accepts this sign-in. It may have taken too long."))
        except ProviderMismatch as error:
            self._log_refusal(str(error))
            return await self.login_stale()
        except BadRequest as error:
            self._log_refusal(str(error))
            raise
        except ScopesNotGranted as error:
            return self._missing_scope_page(error)
        except ClaimsTooLarge as error:
            return self._claims_too_large_page(error)
        except ProviderError as error:
            return self._clear_attempt(view_helpers.provider_error_page(request, error, self._target_url()))

    def _missing_scope_page(self, error: ScopesNotGranted) -> HttpResponse:
        self._log_refusal(str(error))
        response = responses.render_error(
            self.request,
            403,
            Message("The identity provider did not grant a required permission: %(scopes)s.", scopes=error.missing),
            advice=Message("Sign in again and grant all permissions that the identity provider asks for."),
            links=((view_helpers.SIGN_IN_AGAIN[0], self._target_url()),),
        )
        return self._clear_attempt(response)

    def _claims_too_large_page(self, error: ClaimsTooLarge) -> HttpResponse:
        self._log_refusal(str(error))
        response = responses.render_error(
            self.request,
            403,
            Message("The identity provider sends more data about you than this site accepts."),
            advice=Message("Signing in again does not help. Contact your administrator and include the request id below."),
        )
        return self._clear_attempt(response)

    def find_attempt(self, state: str) -> dict[str, Any]:
        self.state = state
        service = self.service
        return service.attempts.find(state, view_helpers.cookie_headers(self.request), service.host_port, service.clock()) or {}

    async def login_stale(self) -> HttpResponse:
        """Respond to a reload, a bookmark or a foreign link: continue if a session exists, otherwise offer to start again."""
        service = self.service
        session = await service.sessions.find(view_helpers.cookie_headers(self.request), service.host_port, service.clock())
        if session is None:
            return self._restart_page(Message("This sign-in has expired, was already completed, or was started in another browser."))
        target = self._target()
        return responses.redirect(
            service.browser_redirects.handoff_location(session, target, self.attempt["route_attempt"]) if target else PORTAL
        )

    def login_failure(self, error: str, description: str = "") -> HttpResponse:
        """Handle an error response of the provider.

        The description is only logged, because any sender of the browser can write it and gate's page would lend it credibility.
        """
        description_text = sanitize(description)
        self._log_refusal(f"the provider returned {sanitize(error)[:MAX_ERROR]!r}" + (f" ({description_text})" if description_text else ""))
        if error == UNMET_REQUIREMENTS_ERROR:
            return self._step_up_failed_page(ACR_NOT_MET)
        if error != "access_denied":
            return self._restart_page(Message("The identity provider could not sign you in."))
        response = responses.render_error(
            self.request,
            401,
            Message("The sign-in was cancelled, or your account at the identity provider may not use this site."),
            advice=Message("Try again, or use another account."),
            links=((view_helpers.TRY_AGAIN, self._target_url()),),
        )
        return self._clear_attempt(response)

    async def login_success(self) -> HttpResponse:
        service, request = self.service, self.request
        # Before the session exists, so that its first request already has the groups.
        await service.directory.sync_user(self.sign_in_result.user.id, self.sign_in_result.tokens.access_token)
        now = service.clock()
        step_up = StepUpRequest.from_attempt(self.attempt)
        if shortfall := step_up.unmet_requirement(self.sign_in_result.user.claims, now, now):
            return await self._handle_step_up_failure(step_up, shortfall)
        if "agent" in self.attempt:
            response = await complete_authorization(request, service, self.sign_in_result, self.attempt)
            return self._clear_attempt(response)
        session = await service.sessions.create(
            self.sign_in_result,
            now,
            previous=await service.sessions.find(view_helpers.cookie_headers(request), service.host_port, now),
            client_address=page_context(request).client_address,
            user_agent=request.headers.get("User-Agent", ""),
            attempt_ids={self.state, *service.attempts.active_ids(view_helpers.cookie_headers(request), service.host_port, now)},
        )
        # After the session was created, so that a concurrent deactivation either ends it or is found here.
        if await service.is_deactivated(session):
            await service.sessions.end(session)
            return self._deactivated_page()
        target = self._target()
        await self._end_oldest(session, now)
        location = service.browser_redirects.handoff_location(session, target, self.attempt["route_attempt"]) if target else PORTAL
        deletions = service.sessions.clear_conflicting(view_helpers.cookie_headers(request), service.host_port, request.path)
        cookies = [*deletions, *service.sessions.set_cookies(session, service.host_port, now), service.attempts.clear_cookie(self.state)]
        cookies += service.provider_selector.remember_cookies(session.provider) if "may_remember" in self.attempt else []
        return responses.redirect(location, cookies)

    async def _end_oldest(self, session: SessionRecord, now: float) -> None:
        gate, service = page_context(self.request), self.service
        for ended in await service.sessions.end_oldest(session, now):
            entry = session_entry(now, session, gate.options.providers, gate.client_address, AuditAction.END_OLDEST_SESSION, ended)
            await service.audit_writer.enqueue(entry)

    def _deactivated_page(self) -> HttpResponse:
        self._log_refusal("the provider deactivated this user (SCIM)")
        reason, advice = Message("Your account is deactivated."), Message("If this is a mistake, contact your administrator.")
        return self._clear_attempt(responses.render_error(self.request, 403, reason, advice=advice))

    async def _handle_step_up_failure(self, step_up: StepUpRequest, shortfall: str) -> HttpResponse:
        """Retry a sign-in that does not meet the step-up requirements once, with forced re-authentication; then show an error page.

        An existing session is unchanged.
        """
        if shortfall == AUTH_TIME_MISSING:
            return self._auth_time_missing_page()
        target = self._target()
        if target is not None and not step_up.force_reauthentication:
            step_up, agent = replace(step_up, force_reauthentication=True), self.attempt.get("agent", "")
            attempt = SignInAttempt(target, self.attempt["route_attempt"], self.sign_in_result.provider, step_up, agent_user_id=agent)
            return self._clear_attempt(await redirect_to_provider(self.request, self.service, attempt))
        return self._step_up_failed_page(shortfall)

    def _auth_time_missing_page(self) -> HttpResponse:
        """Return the page for a missing `auth_time` (OpenID Connect Core 3.1.3.7).

        Either the provider does not send it, or the request was changed on its way.
        """
        self._log_refusal(
            "the provider returned no auth_time in the ID token despite max_age. Configure it to send auth_time, "
            "or remove max_age from the route (docs/guides/identity-providers/README.md)"
        )
        response = responses.render_error(
            self.request,
            403,
            AUTH_TIME_MISSING,
            advice=Message("Try again. If the problem continues, your administrator must check the settings of the identity provider."),
            links=((view_helpers.TRY_AGAIN, self._target_url()), (Message("View my account"), PORTAL)),
        )
        return self._clear_attempt(response)

    def _step_up_failed_page(self, shortfall: str) -> HttpResponse:
        self._log_refusal(shortfall)
        response = responses.render_error(
            self.request,
            403,
            shortfall,
            advice=Message(
                "Try again and choose a stronger sign-in method if one is offered. "
                "Otherwise ask your administrator which method this application requires."
            ),
            links=((view_helpers.TRY_AGAIN, self._target_url()), (Message("View my account"), PORTAL)),
        )
        return self._clear_attempt(response)

    def _target(self) -> RedirectTarget | None:
        """Return the redirect target.  It is checked again, because the routes may have changed since the attempt started."""
        if not self.attempt:
            return None
        return self.service.redirect_targets.resolve(self.attempt["to"], page_context(self.request).authorize.is_route_origin)

    def _target_url(self) -> str:
        target = self._target()
        return str(target) if target is not None else PORTAL

    def _restart_page(self, reason: str) -> HttpResponse:
        links = ((Message("Start again"), self._target_url()),)
        return self._clear_attempt(responses.render_error(self.request, 400, reason, advice=view_helpers.START_AGAIN, links=links))

    def _log_refusal(self, reason: str) -> None:
        log.warning("sign-in refused", reason=reason, request_id=page_context(self.request).request_id)

    def _clear_attempt(self, response: HttpResponse) -> HttpResponse:
        return responses.with_cookies(response, [self.service.attempts.clear_cookie(self.state)] if self.attempt else [])


@view_helpers.renders_bad_request
async def callback(request: HttpRequest) -> HttpResponse:
    return await CallbackView.as_view(service=page_context(request).authenticate)(request)
