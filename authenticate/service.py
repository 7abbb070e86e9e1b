"""Authenticate service: the parts that its pages share, and their life cycle."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from authenticate.access_requests.access_request_service import AccessRequestService
from authenticate.access_requests.access_webhook import AccessWebhook
from authenticate.api.api_authenticator import ApiAuthenticator
from authenticate.audit_writer import AuditWriter
from authenticate.background_work import BackgroundWork
from authenticate.browser_redirects import BrowserRedirects
from authenticate.directory.directory_service import DirectoryService
from authenticate.jwks_publisher import JwksPublisher
from authenticate.oauth.consents import Consents
from authenticate.oauth.token_service import TokenService
from authenticate.page_paths import ACCESS_PATH
from authenticate.portal.portal import Portal
from authenticate.post_logout_redirect import PostLogoutRedirect
from authenticate.provider.client_registry import ProviderClients
from authenticate.provider_health import ProviderHealth
from authenticate.provider_selection import ProviderSelector
from authenticate.redirect_targets import RedirectTargets
from authenticate.replay_guard import ReplayGuard
from authenticate.scim.scim_authenticator import ScimAuthenticator
from authenticate.scim.scim_directory import ScimDirectory
from authenticate.session.provider_initiated_logout import ProviderLogout
from authenticate.session.refresh_worker import CONCURRENCY
from authenticate.session.session_refresh import SessionRefresh
from authenticate.session.session_service import SessionService
from authenticate.upstream_oauth.connection_refresh import ConnectionRefresh
from authenticate.upstream_oauth.connection_service import UpstreamConnections
from authorize.authorizer import AuthorizePageContext
from config.options import Options
from databroker.broker_client import BrokerClient
from databroker.records import SessionRecord
from databroker.session_reader import SessionReader
from foundation.client_network import ConcurrencyLimit
from foundation.crypto.csrf_token import CsrfTokens
from foundation.crypto.programmatic import ProgrammaticRequests
from foundation.crypto.sign_in_attempts import SignInAttempts
from foundation.crypto.signed_urls import UrlSigner
from foundation.crypto.signing_key import SigningKey
from foundation.readiness import ComponentStatus
from foundation.tasks import spawn
from foundation.web.page_context import request_context

# Concurrent sign-ins that wait for one provider, in total and per client network. Each has a connection, because there are 100.
MAX_AT_PROVIDER, MAX_PER_NETWORK = 80, 20
# Concurrent calls of the API, in total and per service account, so that pages are served as well.
MAX_API_CALLS, MAX_API_CALLS_PER_ACCOUNT = 40, 10


class AuthenticateService:
    """The service for one configuration. `host_port` and `origin` are those of `authenticate_service_url`."""

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
        self._provider_health = ProviderHealth(self.providers)
        self.sessions = SessionService(options, broker)
        self.attempts = SignInAttempts(options, purpose="provider")
        self.csrf = CsrfTokens(options)
        self.signer = UrlSigner(options)
        self.redirect_targets = RedirectTargets(self.origin)
        self.post_logout_redirect = PostLogoutRedirect(options, self.redirect_targets)
        self.browser_redirects = BrowserRedirects(options, self.signer, self.redirect_targets, clock)
        self.replay_guard = ReplayGuard(broker, clock)
        self.consent_requests = ProgrammaticRequests(options)
        self.connections = UpstreamConnections(options, broker, clock)
        self.agents = TokenService(options, broker, clock, self.connections)
        self.consents = Consents(broker, clock)
        self.provider_logout = ProviderLogout(self.providers, broker, self.sessions.index, clock)
        self.directory = directory or DirectoryService(options, broker, clock)
        self.refresh = SessionRefresh(self.providers.for_background_work, broker, clock, max_per_provider=CONCURRENCY)
        self.provider_slots = {id: ConcurrencyLimit(MAX_AT_PROVIDER, MAX_PER_NETWORK, options.process_count) for id in options.providers}
        self.provider_selector = ProviderSelector(options)
        self.portal = Portal(options, broker)
        self._access_webhook = AccessWebhook(options, f"{self.origin}{ACCESS_PATH}", clock)
        self.access_requests = AccessRequestService(options, broker, clock, self._access_webhook.enqueue)
        self.api_access = ApiAuthenticator(broker, clock)
        self.api_slots = ConcurrencyLimit(MAX_API_CALLS, MAX_API_CALLS_PER_ACCOUNT, options.process_count)
        pushing = [provider for provider in options.providers.values() if provider.has_scim]
        self.scim: Mapping[str, ScimDirectory] = {
            provider.id: ScimDirectory(provider, broker, clock, self.connections.revoke) for provider in pushing
        }
        self.audit_writer = AuditWriter()
        self.scim_access = ScimAuthenticator({provider.id: provider.scim_tokens for provider in pushing})
        self.jwks_publisher = JwksPublisher(signing_key, broker, clock)
        self._background = self._build_background_work()
        self._revocations: set[asyncio.Task[None]] = set()

    def _build_background_work(self) -> BackgroundWork:
        return BackgroundWork(
            self.options,
            self.broker,
            sessions=self.sessions,
            scim=self.scim,
            refresh=self.refresh,
            connection_refresh=ConnectionRefresh(self.connections, self.broker, self.clock),
            provider_health=self._provider_health,
            published_keys=self.jwks_publisher,
            clock=self.clock,
        )

    async def start(self, *, is_primary: bool = True) -> None:
        """Start the background work.

        Unless `is_primary`, another process of this gate does the work that is done once, and only the writers of this process start.
        """
        self.audit_writer.start()
        self._access_webhook.start()
        if is_primary:
            self._background.start()

    def readiness(self) -> ComponentStatus:
        return self._provider_health.readiness()

    async def is_deactivated(self, session: SessionRecord) -> bool:
        """Return whether the session's provider has deactivated its user by SCIM."""
        directory = self.scim.get(session.provider)
        return directory is not None and await directory.is_deactivated(session)

    def on_replaced(self, options: Options) -> None:
        """Stop writing records of providers that the new configuration, which is now in force, does not have."""
        self.sessions.successor_reader = SessionReader(options)

    async def stop(self, grace: float = 0.0) -> None:
        """Stop. Sign-ins that have started may use the provider for `grace` more seconds."""
        await self._background.stop()
        await asyncio.sleep(grace)
        for task in list(self._revocations):
            task.cancel()
        if self._revocations:
            await asyncio.wait(self._revocations)
        await self.provider_logout.stop()
        await self._access_webhook.stop()
        await self.audit_writer.stop()
        await self.agents.close()
        await self.connections.close()
        await self.providers.close()

    def revoke_in_background(self, session: SessionRecord) -> None:
        """Revoke the session's tokens in the background, because the user need not wait for a slow provider: the session has ended."""
        task = spawn(self.providers.for_background_work(session).revoke(session), name="revoke tokens")
        self._revocations.add(task)
        task.add_done_callback(self._revocations.discard)


class AuthenticatePageContext(AuthorizePageContext, Protocol):
    """Page context with the authenticate service."""

    @property
    def authenticate(self) -> AuthenticateService:
        """The service. Raises RuntimeError in a process without it, which serves none of its pages."""
        ...


page_context: Callable[[Any], AuthenticatePageContext] = request_context
