"""Access webhook: posts an event for each access request and decision.  Callers do not wait for delivery."""

import asyncio
import hashlib
import hmac
import json
import re
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

import httpx
import structlog

from config.options import Options
from foundation.backoff import backoff_delays, retry_after
from foundation.client_tls import client_context
from foundation.connection_errors import classify_failure
from foundation.tasks import spawn
from foundation.values import SecretText
from foundation.web.plain_text import sanitize_text

log = structlog.get_logger(__name__)

SIGNATURE = "X-Gate-Signature"
TIMEOUT = 10.0  # seconds for one attempt
MAX_ATTEMPTS = 6
INITIAL_BACKOFF, MAX_BACKOFF = 1.0, 60.0
MAX_QUEUE = 500
BREAK_GLASS_USED = "break_glass_used"
# Start of markup of Slack and Teams, so that a reason can mention no user, link nowhere and format nothing.
_MARKUP = re.compile(r"[\[\]*_~`|#@\\]|(?<=:)//")
_RETRYABLE = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class AccessEvent:
    """Event of an access request or grant.  `text` is one line and may contain user input."""

    event: str
    requester: str
    user_id: str
    route: str
    reason: str
    actor: str
    text: str
    expires_at: float = 0.0  # Unix seconds; 0 where there is no access


class AccessWebhook:
    """Webhook under one set of Options.  Without a URL it sends nothing."""

    def __init__(self, options: Options, page: str, clock: Callable[[], float]):
        self._url, self._secret = options.access_webhook_url, options.access_webhook_secret
        self._authority = options.certificate_authority
        self._page = page
        self._clock = clock
        self._queue: deque[AccessEvent] = deque()
        self._has_events = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._url is not None and self._secret is not None:
            self._sender = spawn(self._run(self._url, self._secret), name="access webhook")

    async def stop(self) -> None:
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait({self._sender})
            if self._queue:
                log.warning("access webhook stopped with undelivered events", count=len(self._queue))

    def enqueue(self, event: AccessEvent) -> None:
        """Queue an event without waiting.  A full queue drops another event."""
        if self._url is None:
            return
        if len(self._queue) >= MAX_QUEUE:
            dropped = self._drop_candidate()
            self._queue.remove(dropped)
            log.warning("access webhook queue full, event dropped", webhook_event=dropped.event, user_id=dropped.user_id)
        self._queue.append(event)
        self._has_events.set()

    def _drop_candidate(self) -> AccessEvent:
        """Return the event to drop: the oldest of the user with the most events, so that no user can crowd out others.

        Break-glass events are dropped last.
        """
        candidates = [each for each in self._queue if each.event != BREAK_GLASS_USED] or list(self._queue)
        (busiest, _), *_ = Counter(each.user_id for each in candidates).most_common(1)
        return next(each for each in candidates if each.user_id == busiest)

    async def _run(self, url: SecretText, secret: SecretText) -> None:
        verify = client_context(self._authority)
        async with httpx.AsyncClient(verify=verify, timeout=TIMEOUT, follow_redirects=False, trust_env=False) as client:
            while True:
                await self._has_events.wait()
                while self._queue:
                    event = self._queue[0]
                    await self._deliver(client, url, secret, event)
                    if self._queue and self._queue[0] is event:
                        self._queue.popleft()
                self._has_events.clear()

    async def _deliver(self, client: httpx.AsyncClient, url: SecretText, secret: SecretText, event: AccessEvent) -> None:
        """Deliver an event with retries for transient errors, and log it if all fail."""
        body, backoff, reason = self._body(event), backoff_delays(INITIAL_BACKOFF, MAX_BACKOFF), ""
        for _ in range(MAX_ATTEMPTS):
            delay = next(backoff)
            try:
                async with asyncio.timeout(TIMEOUT):
                    response = await self._post(client, url, body, secret)
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
                reason = str(classify_failure(error)) if isinstance(error, httpx.TransportError) else type(error).__name__
            else:
                if response.is_success:
                    return
                reason = f"status {response.status_code}"
                if response.status_code < 500 and response.status_code not in _RETRYABLE:
                    break
                requested = retry_after(response.headers.get("retry-after", ""), self._clock())
                delay = min(max(delay, requested or 0.0), MAX_BACKOFF)
            await asyncio.sleep(delay)
        log.error("access webhook delivery failed", webhook_event=event.event, user_id=event.user_id, reason=reason)

    async def _post(self, client: httpx.AsyncClient, url: SecretText, body: bytes, secret: SecretText) -> httpx.Response:
        signature = sign(secret.reveal().encode(), body, int(self._clock()))
        headers = {"Content-Type": "application/json", SIGNATURE: signature}
        async with client.stream("POST", url.reveal(), content=body, headers=headers) as response:
            return response  # the body is not read

    def _body(self, event: AccessEvent) -> bytes:
        fields = {name: getattr(event, name) for name in ("event", "requester", "user_id", "route", "reason", "actor", "expires_at")}
        document = {"text": f"{escape_chat_markup(event.text)} {self._page}", **fields, "url": self._page}
        return json.dumps(document).encode()


def sign(secret: bytes, body: bytes, timestamp: int) -> str:
    """Return `t=<Unix seconds>,v1=<HMAC-SHA256 of "t.body", hexadecimal>`.  A receiver that checks `t` detects replays."""
    digest = hmac.new(secret, b"%d." % timestamp + body, hashlib.sha256).hexdigest()
    return f"t={timestamp},v1={digest}"


def escape_chat_markup(text: str) -> str:
    """Return text for a chat, without markup, and escaped as Slack requires."""
    plain = _MARKUP.sub(lambda found: {"[": "(", "]": ")", "@": "(at)"}.get(found[0], " "), sanitize_text(text))
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
