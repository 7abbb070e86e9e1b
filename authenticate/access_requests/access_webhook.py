"""Access webhook: tells a chat, or a program, of each request for access and of what came of it.  Nobody waits for it."""

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
from foundation.web.plain_text import plain_text

log = structlog.get_logger(__name__)

SIGNATURE = "X-Gate-Signature"
TIMEOUT = 10.0  # seconds for one try
MAX_ATTEMPTS = 6
INITIAL_BACKOFF, MAX_BACKOFF = 1.0, 60.0
MAX_QUEUE = 500
BREAK_GLASS_USED = "break_glass_used"
# What Slack's and Teams's markup begins with: a reason must call nobody, lead nowhere, and look like nothing but words.
_MARKUP = re.compile(r"[\[\]*_~`|#@\\]|(?<=:)//")
_AGAIN = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class AccessEvent:
    """What happened; `words` say it in one line that may hold what people wrote."""

    event: str
    requester: str
    user_id: str
    route: str
    reason: str
    actor: str
    text: str
    expires_at: float = 0.0  # Unix seconds; 0 where there is no access


class AccessWebhook:
    """Webhook of one set of Options; without a URL it tells nobody."""

    def __init__(self, options: Options, page: str, clock: Callable[[], float]):
        self._url, self._secret = options.access_webhook_url, options.access_webhook_secret
        self._authority = options.certificate_authority
        self._page = page
        self._clock = clock
        self._waiting: deque[AccessEvent] = deque()
        self._is_wanted = asyncio.Event()
        self._teller: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._url is not None and self._secret is not None:
            self._teller = spawn(self._run(self._url, self._secret), name="access webhook")

    async def stop(self) -> None:
        if self._teller is not None:
            self._teller.cancel()
            await asyncio.wait({self._teller})
            if self._waiting:
                log.warning("access webhook stopped with undelivered events", number=len(self._waiting))

    def enqueue(self, event: AccessEvent) -> None:
        """Queue what is to be told, at once; where too much waits the oldest is dropped."""
        if self._url is None:
            return
        if len(self._waiting) >= MAX_QUEUE:
            dropped = self._least_missed()
            self._waiting.remove(dropped)
            log.warning("access webhook queue full, event dropped", about=dropped.event, user_id=dropped.user_id)
        self._waiting.append(event)
        self._is_wanted.set()

    def _least_missed(self) -> AccessEvent:
        """The oldest of the person about whom most waits, whose flood must hide nobody else's, and no broken glass at all."""
        quiet = [each for each in self._waiting if each.event != BREAK_GLASS_USED] or list(self._waiting)
        (crowd, _), *_ = Counter(each.user_id for each in quiet).most_common(1)
        return next(each for each in quiet if each.user_id == crowd)

    async def _run(self, url: SecretText, secret: SecretText) -> None:
        verify = client_context(self._authority)
        async with httpx.AsyncClient(verify=verify, timeout=TIMEOUT, follow_redirects=False, trust_env=False) as client:
            while True:
                await self._is_wanted.wait()
                while self._waiting:
                    event = self._waiting[0]
                    await self._told(client, url, secret, event)
                    if self._waiting and self._waiting[0] is event:
                        self._waiting.popleft()
                self._is_wanted.clear()

    async def _told(self, client: httpx.AsyncClient, url: SecretText, secret: SecretText, event: AccessEvent) -> None:
        """Try, and try again where that may help; what is given up stands in the log."""
        body, waits, reason = self._body(event), backoff_delays(INITIAL_BACKOFF, MAX_BACKOFF), ""
        for _ in range(MAX_ATTEMPTS):
            pause = next(waits)
            try:
                async with asyncio.timeout(TIMEOUT):
                    answer = await self._post(client, url, body, secret)
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
                reason = str(classify_failure(error)) if isinstance(error, httpx.TransportError) else type(error).__name__
            else:
                if answer.is_success:
                    return
                reason = f"status {answer.status_code}"
                if answer.status_code < 500 and answer.status_code not in _AGAIN:
                    break
                asked = retry_after(answer.headers.get("retry-after", ""), self._clock())
                pause = min(max(pause, asked or 0.0), MAX_BACKOFF)
            await asyncio.sleep(pause)
        log.error("access webhook delivery failed", about=event.event, user_id=event.user_id, reason=reason)

    async def _post(self, client: httpx.AsyncClient, url: SecretText, body: bytes, secret: SecretText) -> httpx.Response:
        signature = sign(secret.reveal().encode(), body, int(self._clock()))
        headers = {"Content-Type": "application/json", SIGNATURE: signature}
        async with client.stream("POST", url.reveal(), content=body, headers=headers) as answer:
            return answer  # nobody reads what it says

    def _body(self, event: AccessEvent) -> bytes:
        said = {name: getattr(event, name) for name in ("event", "requester", "user_id", "route", "reason", "actor", "expires_at")}
        document = {"text": f"{escape_chat_markup(event.text)} {self._page}", **said, "url": self._page}
        return json.dumps(document).encode()


def sign(secret: bytes, body: bytes, timestamp: int) -> str:
    """`t=<Unix seconds>,v1=<HMAC-SHA256 of "t.body", hexadecimal>`: who checks the time, too, takes no message twice."""
    digest = hmac.new(secret, b"%d." % timestamp + body, hashlib.sha256).hexdigest()
    return f"t={timestamp},v1={digest}"


def escape_chat_markup(words: str) -> str:
    """Words for a chat: without its markup, and escaped as Slack asks for."""
    plain = _MARKUP.sub(lambda found: {"[": "(", "]": ")", "@": "(at)"}.get(found[0], " "), plain_text(words))
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
