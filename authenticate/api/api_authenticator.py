"""Authentication of API calls by the token of a service account, and permission checks."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from asgiref.sync import sync_to_async

from authenticate.api.api_problems import ApiProblem
from authorize.identity import request_credentials
from authorize.identity.service_account_loader import find_account
from authorize.policy.policy_request import PolicyRequest
from config.settings.provider_entry import SERVICE_ACCOUNT as PROVIDER
from databroker.broker_client import BrokerClient
from databroker.projection.rows import write_last_seen
from databroker.records import ServiceAccountRecord
from foundation.auth_challenges import INSUFFICIENT_SCOPE, INVALID_TOKEN, UNAUTHENTICATED, InvalidToken
from foundation.bounded_cache import BoundedCache
from foundation.crypto.service_account_token import hash_token
from foundation.errors import BrokerError

log = structlog.get_logger(__name__)

LAST_USED_INTERVAL = 60.0  # seconds between two writes of an account's last use


@dataclass(frozen=True, slots=True)
class ApiPrincipal:
    """Service account that authenticated an API call.

    `account` is the data broker's current record; `secret_hash` is the hash of the secret that was sent.
    """

    account: ServiceAccountRecord
    secret_hash: str = field(default="", repr=False)

    @property
    def id(self) -> str:
        return f"{PROVIDER}/{self.account.name}"

    def require_permission(self, permission: str) -> None:
        """Raise ApiProblem 403 unless the account has this permission."""
        if permission not in self.account.permissions:
            raise ApiProblem(
                403, f"the service account {self.account.name} lacks the permission {permission}", permission=permission
            ).with_header("WWW-Authenticate", INSUFFICIENT_SCOPE)


# enforcement-point: Identity: API authentication and permissions
class ApiAuthenticator:
    """Authenticator of the API.  It ignores cookies, and tokens in the URL."""

    def __init__(self, broker: BrokerClient, clock: Callable[[], float] = time.time):
        self._broker = broker
        self._clock = clock
        self._last_used: BoundedCache[str, float] = BoundedCache(1000, 1_000_000)

    async def authenticate(self, request: PolicyRequest) -> ApiPrincipal:
        """Return the service account whose token is in the Authorization header.

        Raises ApiProblem 401 if there is not exactly one valid token, and BrokerError.
        """
        scheme, token = request_credentials.parse_authorization(request)
        if not request_credentials.is_service_account_token(scheme, token):
            challenge = INVALID_TOKEN if token else UNAUTHENTICATED
            raise ApiProblem(401, "send `Authorization: Bearer <token of a service account>`").with_header("WWW-Authenticate", challenge)
        account = await find_account(token, self._broker, self._clock())
        if isinstance(account, InvalidToken):
            problem = ApiProblem(401, "the token is expired, rotated or revoked").with_header("WWW-Authenticate", INVALID_TOKEN)
            problem.reason = account.reason
            raise problem
        return ApiPrincipal(account, hash_token(token))

    async def record_use(self, principal: ApiPrincipal, host: str) -> None:
        """Write when the account was last used, at most once per LAST_USED_INTERVAL."""
        now, before = self._clock(), self._last_used.get(principal.id)
        if before is None or not 0 <= now - before < LAST_USED_INTERVAL:
            self._last_used.put(principal.id, now, 100)
            try:
                await sync_to_async(write_last_seen)({principal.id: (now, host)})
            except BrokerError as error:  # a call that does not need these tables is still answered
                log.warning("updating service account last use failed", reason=str(error).partition("\n")[0])
