"""Metric of token requests: by grant type, and by what was decided."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from authlib.oauth2.rfc6749 import OAuth2Error

from authenticate.oauth.authorization_server import TemporarilyUnavailableError
from authenticate.oauth.oauth_client import AUTHORIZATION_CODE, CLIENT_CREDENTIALS, DEVICE_CODE, REFRESH_TOKEN
from authenticate.oauth.token_service import TokenResult
from foundation.telemetry import metrics

REVOCATION = "revocation"
# Values of the label `grant_type`, which clients choose: others are OTHER.
GRANT_TYPES = {
    AUTHORIZATION_CODE: AUTHORIZATION_CODE,
    REFRESH_TOKEN: REFRESH_TOKEN,
    CLIENT_CREDENTIALS: CLIENT_CREDENTIALS,
    DEVICE_CODE: "device_code",
    REVOCATION: REVOCATION,
}
OTHER = "other"
PENDING = frozenset({"authorization_pending", "slow_down"})


@dataclass(slots=True)
class CountedRequest:
    """Token or revocation request that is being counted; `result` is set once it is decided."""

    result: TokenResult | None = None


@contextmanager
def count_token_request(grant_type: str) -> Iterator[CountedRequest]:
    """Count the request in this block, also if it raises OAuth2Error or BrokerError."""
    counted, outcome = CountedRequest(), "unavailable"
    try:
        yield counted
        outcome = token_outcome(counted.result)
    except OAuth2Error as error:
        outcome = "unavailable" if isinstance(error, TemporarilyUnavailableError) else "refused"
        raise
    finally:
        metrics.oauth_tokens.labels(GRANT_TYPES.get(grant_type, OTHER), outcome).inc()


def token_outcome(result: TokenResult | None) -> str:
    if result is None:
        return "unavailable"
    if result.ended is not None:
        return "revoked"
    body = result.response.body
    if body.get("error") in PENDING:
        return "pending"
    if result.response.status != 200:
        return "refused"
    return "issued" if "access_token" in body else "revoked"
