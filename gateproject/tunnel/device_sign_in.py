"""Sign-in with a browser on any machine: device authorization (RFC 8628)."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from gateproject.tunnel.oauth_client import DEVICE_CODE, TEMPORARILY_UNAVAILABLE, AuthorizationServer, OAuthError
from gateproject.tunnel.tls_connection import TunnelError
from gateproject.tunnel.token_file import StoredToken

SLOW_DOWN_SECONDS = 5.0
MIN_INTERVAL_SECONDS = 1.0
_EXPIRED = "the code expired before the sign-in was complete. Try again"
# Errors that are the user's answer.
_FINAL = {"access_denied": "the access was denied in the browser", "expired_token": _EXPIRED}


async def sign_in(
    server: AuthorizationServer, report: Callable[[str], None], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> StoredToken:
    """Return the tokens of a sign-in with a code that the user enters in a browser. Raise TunnelError."""
    device = await server.start_device()
    expires_at, interval = time.monotonic() + device.expires_in, max(device.interval, MIN_INTERVAL_SECONDS)
    report(f"To sign in, open {device.verification_uri} in a browser and enter the code {device.user_code}")
    while time.monotonic() + interval < expires_at:
        await sleep(interval)
        try:
            return await server.request_tokens(DEVICE_CODE, device_code=device.device_code)
        except OAuthError as error:
            if error.code in _FINAL:
                raise TunnelError(_FINAL[error.code]) from None
            if error.code == "slow_down":
                interval += SLOW_DOWN_SECONDS
            elif error.code == TEMPORARILY_UNAVAILABLE:
                interval *= 2
            elif error.code != "authorization_pending":
                raise
        except TunnelError:  # RFC 8628 3.5: the server is unreachable at the moment
            interval *= 2
    raise TunnelError(_EXPIRED)
