"""Authorization request to the provider, and the state of the sign-in attempt."""

from dataclasses import dataclass, field

from django.http import HttpRequest, HttpResponse

from authenticate.provider.django_oidc import GateRequestView, library_settings
from authenticate.provider.par import push_params
from authenticate.redirect_targets import RedirectTarget
from authenticate.service import AuthenticateService
from authenticate.step_up import StepUpRequest
from authenticate.views import view_helpers
from foundation.errors import BadRequest, ProviderError
from foundation.web.message import Message

# Browsers store 4 KiB per cookie, and the target is sealed into one with the rest of the attempt.
MAX_REMEMBERED_URL = 2000


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """Sign-in in progress.

    `route_attempt_id` identifies the route host's own attempt, which led here.  `step_up` has the route's requirements.  `login_hint` is
    an address that the user entered.  If `may_remember`, the user chose the provider on a page of gate, so a cookie may remember it.
    `agent_user_id` is the user who allowed an OAuth client: then the sign-in creates the client's session, not the browser's.
    """

    target: RedirectTarget
    route_attempt_id: str
    provider: str
    step_up: StepUpRequest = field(default_factory=StepUpRequest)
    login_hint: str = ""
    may_remember: bool = False
    agent_user_id: str = ""


async def redirect_to_provider(request: HttpRequest, service: AuthenticateService, attempt: SignInAttempt) -> HttpResponse:
    client = service.providers.get(attempt.provider)
    if client is None:
        raise BadRequest(Message("the identity provider in this link is no longer configured"))
    try:
        discovery = await client.discovery()
    except ProviderError as error:
        return view_helpers.provider_error_page(request, error, str(attempt.target))

    def start(claims: dict[str, str]) -> tuple[str, list[str]]:
        remembered = {
            **claims,
            "to": attempt.target.truncated(MAX_REMEMBERED_URL),
            "route_attempt": attempt.route_attempt_id,
            **attempt.step_up.to_attempt(),
        }
        remembered |= {"provider": client.provider.id, "issuer": client.provider.issuer}
        remembered |= {"may_remember": "yes"} if attempt.may_remember else {}
        remembered |= {"agent": attempt.agent_user_id} if attempt.agent_user_id else {}
        return service.attempts.start(remembered, service.host_port, view_helpers.cookie_headers(request), service.clock())

    provider = client.provider
    extra_params = attempt.step_up.request_params(
        provider.request_params, provider.reauthentication_prompt, supports_claims_parameter=discovery.supports_claims_parameter
    )
    extra_params |= {"login_hint": attempt.login_hint} if attempt.login_hint else {}
    settings = library_settings(service.options, client, discovery, extra_params)

    async def push(params: dict[str, str]) -> dict[str, str]:
        with view_helpers.sign_in_slot(request, client.provider.id):
            return await push_params(client, discovery, params)

    is_pushed = bool(discovery.par_endpoint)
    try:
        view = GateRequestView(oidc_settings=settings, begin_attempt=start, push_request=push if is_pushed else None)
        view.setup(request)
        response = await view.get(request)  # also after the form of a consent page, which is a POST
    except view_helpers.TooManySignIns:
        return view_helpers.too_many_sign_ins_page(request)
    except ProviderError as error:
        return view_helpers.provider_error_page(request, error, str(attempt.target))
    response.headers["Cache-Control"] = "no-store"
    return response
