"""Authenticate service: what its pages share, and what runs in the background for it."""

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog

from authenticate.access_requests.access_request_service import AccessDesk
from authenticate.access_requests.access_webhook import AccessWebhook
from authenticate.api.api_authenticator import ApiAccess
from authenticate.audit_trail import AuditTrail
from authenticate.directory.service import DirectoryService
from authenticate.portal.portal import Portal
from authenticate.post_logout_redirect import PostLogoutRedirect
from authenticate.provider.clients import ProviderClients
from authenticate.provider_choice import ProviderChoice
from authenticate.provider_watch import ProviderWatch
from authenticate.published_keys import PublishedKeys
from authenticate.redirect_targets import RedirectTarget, RedirectTargets
from authenticate.removed_directories import RemovedDirectories
from authenticate.removed_providers import RemovedProviders
from authenticate.scim.scim_authenticator import ScimAccess
from authenticate.scim.scim_directory import ScimDirectory
from authenticate.scim.scim_errors import ScimError
from authenticate.session.linked_index import LinkedIndex
from authenticate.session.provider_logout import ProviderLogout
from authenticate.session.refresh import SessionRefresh
from authenticate.session.refresh_worker import AT_ONCE, RefreshWorker
from authenticate.session.sessions import Sessions
from authorize.authorizer import AuthorizePageContext
from config.options import Options
from databroker.broker_client import BrokerClient, consume_once
from databroker.leader_election import run_elected
from databroker.records import SessionRecord
from databroker.session_reader import SessionReader
from foundation.backoff import retry
from foundation.client_network import ConcurrencyLimit
from foundation.crypto.csrf_token import CsrfTokens
from foundation.crypto.handoff import TO_CLIENT_APPLICATION, HandoffTokens
from foundation.crypto.programmatic import ProgrammaticRequests
from foundation.crypto.sign_in_attempts import LIFETIME, SignInAttempts
from foundation.crypto.signed_urls import UrlSigner
from foundation.crypto.signing_key import SigningKey
from foundation.errors import BrokerError, GateError
from foundation.readiness import ComponentStatus
from foundation.tasks import spawn
from foundation.web.page_context import request_context

log = structlog.get_logger(__name__)

SIGN_IN_PATH = "/.gate/sign_in"
CALLBACK_PATH = "/.gate/callback/"
# Sign-ins that wait for one provider at a time, and of them those of one client network.  All have a connection: there are 100.
MOST_AT_PROVIDER, MOST_OF_ONE_NETWORK = 80, 20
# Calls of the API that are answered at a time, and of them those of one program: people's pages have their turn.
MOST_API_CALLS, MOST_OF_ONE_PROGRAM = 40, 10
FIRST_PAUSE = 0.5  # seconds until something is tried again
STOP_GRACE = 60.0  # seconds for which a sign-in of the former configuration may talk to the provider; four exchanges end within that
# Seconds before each sweep after a start: the second finds what requests of the former configuration wrote, here or in another process.
SWEEP_PAUSES = (0.0, STOP_GRACE + 10.0)
ACCESS_PATH = "/.gate/access"
BACKCHANNEL_LOGOUT_PATH = "/.gate/backchannel_logout"
FRONTCHANNEL_LOGOUT_PATH = "/.gate/frontchannel_logout"


class AuthenticateService:
    """The service for one set of Options.  `host_port` and `origin` are those of `authenticate_service_url`."""

    def __init__(
        self,
        options: Options,
        broker: BrokerClient,
        signing_key: SigningKey,
        clock: Callable[[], float] = time.time,
        directory: DirectoryService | None = None,
    ):
        self.options = options
        self.broker = broker
        self.signing_key = signing_key
        self.clock = clock
        self.origin = options.authenticate_service_url.origin
        self.host_port = options.authenticate_service_url.host_port
        self.providers = ProviderClients(options, clock)
        self._provider_watch = ProviderWatch(self.providers)
        self.sessions = Sessions(options, broker)
        self.attempts = SignInAttempts(options, purpose="provider")
        self.csrf = CsrfTokens(options)
        self.signer = UrlSigner(options)
        self.targets = RedirectTargets(self.origin)
        self.post_logout_redirect = PostLogoutRedirect(options, self.targets)
        self._hand_overs = HandoffTokens(options)
        self.program_requests = ProgrammaticRequests(options)
        self._program_hand_overs = HandoffTokens(options, TO_CLIENT_APPLICATION)
        self.provider_logout = ProviderLogout(self.providers, broker, self.sessions.at_provider, clock)
        self.directory = directory or DirectoryService(options, broker, clock)
        self.refresh = SessionRefresh(self.providers.for_our_own_work, broker, clock, share=AT_ONCE)
        self.places_at_provider = {
            id: ConcurrencyLimit(MOST_AT_PROVIDER, MOST_OF_ONE_NETWORK, options.process_count) for id in options.providers
        }
        self.choice = ProviderChoice(options)
        self.portal = Portal(options, broker)
        self._access_webhook = AccessWebhook(options, f"{self.origin}{ACCESS_PATH}", clock)
        self.access = AccessDesk(options, broker, clock, self._access_webhook.tell)
        self.api_access = ApiAccess(broker, clock)
        self.api_places = ConcurrencyLimit(MOST_API_CALLS, MOST_OF_ONE_PROGRAM, options.process_count)
        pushing = [provider for provider in options.providers.values() if provider.has_scim]
        self.scim: Mapping[str, ScimDirectory] = {provider.id: ScimDirectory(provider, broker, clock) for provider in pushing}
        self.audit_trail = AuditTrail()
        self.scim_access = ScimAccess({provider.id: provider.scim_tokens for provider in pushing})
        self.published_keys = PublishedKeys(signing_key, broker, clock)
        self._background: list[asyncio.Task[None]] = []
        self._revocations: set[asyncio.Task[None]] = set()

    async def start(self, *, alone: bool = True) -> None:
        """Begin the background work; not `alone`, only that of pages, because another process of this gate does what is done once."""
        self.audit_trail.start()
        self._access_webhook.start()
        if not alone:
            return
        self._background.append(spawn(self._sweep(), name="sweep of the sessions"))
        self._background.append(spawn(self._tidy(), name="tidying of the directories"))
        self._background.append(spawn(self._provider_watch.run(), name="looks at the providers"))
        self._background.append(spawn(self.published_keys.run(), name="published keys"))
        interval = self.options.idp_refresh_directory_interval.total_seconds()
        worker = RefreshWorker(
            self.refresh, self.broker, interval=interval, clock=self.clock, at_once=AT_ONCE * len(self.options.providers)
        )
        self._background.append(spawn(run_elected(self.broker, "session refresh", worker.run), name="election for session refresh"))

    def readiness(self) -> ComponentStatus:
        return self._provider_watch.readiness()

    async def is_deactivated(self, session: SessionRecord) -> bool:
        """Whether the session's provider has pushed that its person must not get in any more."""
        directory = self.scim.get(session.provider)
        return directory is not None and await directory.is_deactivated(session)

    def replaced_by(self, options: Options) -> None:
        """Another configuration is in force: requests of this one write nothing of providers that it does not have."""
        self.sessions.successor = SessionReader(options)

    async def _sweep(self) -> None:
        for pause in SWEEP_PAUSES:
            await asyncio.sleep(pause)
            await RemovedProviders(self.options, self.broker).run()
            await LinkedIndex(self.sessions, self.broker).run()

    async def _tidy(self) -> None:
        for pause in SWEEP_PAUSES:
            await asyncio.sleep(pause)
            await RemovedDirectories(self.options, self.broker).run()
            await asyncio.gather(*map(self._tidy_scim, self.scim.values()))

    async def _tidy_scim(self, directory: ScimDirectory) -> None:
        def unable(error: GateError) -> None:
            log.warning("SCIM repair failed", provider=directory.provider.id, reason=str(error))

        await retry(directory.tidy, unable, FIRST_PAUSE, (BrokerError, ScimError))

    async def stop(self, grace: float = 0.0) -> None:
        """Begin nothing new; sign-ins under way have `grace` seconds left with the provider."""
        for task in self._background:
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)
        await asyncio.sleep(grace)
        for task in list(self._revocations):
            task.cancel()
        if self._revocations:
            await asyncio.wait(self._revocations)
        await self.provider_logout.stop()
        await self._access_webhook.stop()
        await self.audit_trail.stop()
        await self.providers.close()

    def revoke_soon(self, session: SessionRecord) -> None:
        """Revoke the session's tokens in the background: a slow provider must not keep the person waiting, the session is over already."""
        task = spawn(self.providers.for_our_own_work(session).revoke(session), name="revoke tokens")
        self._revocations.add(task)
        task.add_done_callback(self._revocations.discard)

    async def spend_state(self, state: str) -> bool:
        """True exactly once for each state; remembered until its cookie would have expired."""
        return await consume_once(self.broker, f"state/{state}", self.clock() + LIFETIME)

    async def spend_code(self, code: str) -> bool:
        """True exactly once for each code: of several providers the one that was asked sees it, and must not be able to bring it as the
        answer of another that issued it (mix-up, RFC 9700 4.4), also after a reload took it away, or all but one.
        """
        return await consume_once(self.broker, f"code/{hashlib.sha256(_essence(code).encode()).hexdigest()}", self.clock() + LIFETIME)

    def sign_in_url_for(self, own_path: str, **asked: str) -> str:
        """Sign-in URL for a page of the authenticate host, with the step-up that is `asked`; sign-in leads back to `own_path`."""
        return self.signer.sign(self.origin + SIGN_IN_PATH, {"gate_redirect_uri": self.origin + own_path, **asked}, self.clock())

    def sign_in_params(self, query: str) -> dict[str, str]:
        """Parameters of a signed sign-in URL with this query; UrlExpired, SealError."""
        return self.signer.verify(f"{self.origin}{SIGN_IN_PATH}?{query}", self.clock())

    def return_location(self, session: SessionRecord, target: RedirectTarget, attempt_id: str) -> str:
        """Redirect of the signed-in browser: home at once, or to a route host with a hand-over token that gives that host the session."""
        if self.targets.is_own(target):
            return str(target)
        token = self._hand_overs.seal(session.id, attempt_id, target.host_port, str(target), self.clock())
        return f"{target.origin}{CALLBACK_PATH}?gate_session={token}"

    def program_location(self, session: SessionRecord, route: RedirectTarget, redirect_uri: str) -> str:
        """Redirect after consent to a program: to the route host, which makes the program's token and leads on to the program."""
        token = self._program_hand_overs.seal(session.id, "", route.host_port, redirect_uri, self.clock())
        return f"{route.origin}{CALLBACK_PATH}?gate_programmatic=true&gate_session={token}"


class AuthenticatePageContext(AuthorizePageContext, Protocol):
    """Page context with the authenticate service."""

    @property
    def authenticate(self) -> AuthenticateService:
        """RuntimeError in a process without it, which serves none of its pages."""
        ...


page_context: Callable[[Any], AuthenticatePageContext] = request_context


def _essence(code: str) -> str:
    """What no reader of a code overlooks: lenient ones take it in another case, with signs between, or with the spare bits of its parts'
    last characters in base64 set otherwise.
    """
    return re.sub(r"[^a-z0-9]|[a-z0-9](?=[^a-z0-9]|$)", "", code.lower())
