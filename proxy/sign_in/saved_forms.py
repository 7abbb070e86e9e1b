"""Saved forms: a form that is submitted without a session is stored during sign-in, then sent once by the same browser.

| step                                     | protection                                                                       |
|------------------------------------------|----------------------------------------------------------------------------------|
| a POST without a session is stored       | only forms from pages of the same origin, by navigation, of limited size         |
| a page shows the form's button           | a cookie that only this host can set, and a session                              |
| the button's POST becomes the saved form | the same cookie, origin and URL; single use; then authorized like any request    |
"""

import json
import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import structlog
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from config.options import Options
from databroker.broker_client import BrokerClient, consume_once
from databroker.records import SAVED_FORM
from databroker.store.base import VersionConflict
from foundation.client_network import ConcurrencyLimit, client_network
from foundation.crypto import cookies
from foundation.crypto.sealing import NONCE_BYTES, Sealer, decrypt, derive_key, from_text, to_text
from foundation.crypto.sign_in_attempts import ID_CHARACTERS, is_attempt_id
from foundation.errors import BadRequest, BrokerError, SealError
from foundation.web.asgi_types import Receive
from foundation.web.message import Message
from proxy.incoming_request import IncomingRequest

log = structlog.get_logger(__name__)

MAX_FORM_BYTES = 1024 * 1024
LIFETIME = 600.0  # as long as a sign-in may take
PATH = "/.gate/form/"
FIELD = "_gate_form"
FORM_MEDIA_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")
# (name, maximum bytes, slots) of each size class, 64 MiB in total.
SIZE_CLASSES = (("small", 64 * 1024, 512), ("large", MAX_FORM_BYTES, 32))
SLOTS_PER_CLIENT = 4  # of each size class for one client network, so that one client can't fill it
# Of all clients, and of one client network, so that slow senders leave capacity to others.
MAX_CONCURRENT_READS, MAX_READS_PER_CLIENT = 32, SLOTS_PER_CLIENT
_BUTTON_BYTES = len(FIELD) + 1 + ID_CHARACTERS

TOO_LARGE = Message("it is larger than 1 MiB")
NOT_A_FORM = Message("it is not a form")
NO_SLOT = Message("the storage for kept forms is full")
NOT_REPLAYABLE = Message("this application does not accept kept forms")


class FormGone(BadRequest):
    """Error of a form that was already sent, or has expired."""

    status = 410


@dataclass(frozen=True, slots=True)
class SavedForm:
    """Page path and cookie of a saved form.  The cookie contains the key that decrypts the form."""

    path: str
    set_cookie: str


@dataclass(frozen=True, slots=True)
class NotSaved:
    reason: str


@dataclass(frozen=True, slots=True)
class SubmittedForm:
    """Form as submitted: `target` is its path and query, `submitted_at` is in Unix seconds."""

    id: str
    slot: str
    target: str
    content_type: str
    submitted_at: float
    body: bytes = field(repr=False)


# enforcement-point: Sign-in and sign-out: Saved forms
class SavedForms:
    """Store of saved forms.  `scheme_for` returns the scheme of a host and port.  Without a broker, no form is saved."""

    def __init__(self, options: Options, broker: BrokerClient | None, scheme_for: Callable[[str, int | None], str]):
        # The prefix prevents sibling domains from setting this cookie (RFC 6265bis 4.1.3.2); it requires TLS.
        self._prefix = cookies.host_prefixed_name(f"{options.cookie_name}_form_", secure=options.cookie_secure)
        self._secure = options.cookie_secure
        self._sealer = Sealer(options.cookie_secret, "kept form")
        self._slot_key = derive_key(options.cookie_secret[0], "places of kept forms")
        self._broker = broker
        self._scheme_for = scheme_for
        self._read_limit = ConcurrencyLimit(MAX_CONCURRENT_READS, MAX_READS_PER_CLIENT, options.process_count)

    async def save(
        self, incoming: IncomingRequest, receive: Receive, now: float, *, is_replayable: bool = True
    ) -> SavedForm | NotSaved | None:
        """Save a form.  Return None without saving if no page of the same origin sent it.

        `is_replayable`: this data plane can forward the saved form.
        """
        if incoming.request.method != "POST" or self._broker is None or not self._is_same_origin(incoming):
            return None
        length = incoming.header(b"content-length")
        if length == "0":
            return None
        if incoming.media_type not in FORM_MEDIA_TYPES or incoming.header(b"content-encoding"):
            return NotSaved(NOT_A_FORM)
        if not is_replayable:
            return NotSaved(NOT_REPLAYABLE)
        if length.isdecimal() and int(length) > MAX_FORM_BYTES:
            return NotSaved(TOO_LARGE)
        network = client_network(incoming.client_address)
        if not self._read_limit.acquire(network):
            return NotSaved(NO_SLOT)
        try:
            body = await _read_body(receive, MAX_FORM_BYTES)
        finally:
            self._read_limit.release(network)
        return NotSaved(TOO_LARGE) if body is None else await self._store(self._broker, incoming, body, now)

    async def _store(self, broker: BrokerClient, incoming: IncomingRequest, body: bytes, now: float) -> SavedForm | NotSaved:
        id, key, host_port = secrets.token_urlsafe(16), AESGCM.generate_key(256), incoming.request.host_port
        header = {"target": _target(incoming), "content_type": incoming.header(b"content-type"), "sent_at": now}
        nonce = os.urandom(NONCE_BYTES)
        # Only the browser has the key, so the store contains no readable form.
        ciphertext = nonce + AESGCM(key).encrypt(nonce, json.dumps(header).encode() + b"\n" + body, _audience(id, host_port).encode())
        data, expires_at = {"box": to_text(ciphertext)}, now + LIFETIME
        for slot in self._slots(incoming.client_address, len(body)):
            try:
                await broker.put(SAVED_FORM, slot, data, expires=expires_at, only_if_version=0)
            except VersionConflict:
                continue
            except BrokerError as error:
                log.warning("form not saved", reason=str(error), request_id=incoming.request_id)
                return NotSaved(Message("it can't be kept right now"))
            sealed = self._sealer.seal({"place": slot, "key": to_text(key)}, audience=_audience(id, host_port), expires_at=expires_at)
            return SavedForm(PATH + id, self._cookie(id, sealed, int(LIFETIME)))
        return NotSaved(NO_SLOT)

    async def load(self, incoming: IncomingRequest, id: str, now: float) -> SubmittedForm | None:
        """Return the form with this id of this browser; None if there is none, or it was sent or has expired."""
        if self._broker is None or not is_attempt_id(id):
            return None
        audience, name = _audience(id, incoming.request.host_port), (self._prefix + id).encode()
        for cookie, value in cookies.parse(incoming.cookie_headers):
            if cookie != name:
                continue
            try:
                claims = self._sealer.open(value.decode("ascii"), audience=audience, now=now)
                return await _load_form(self._broker, id, claims["place"], AESGCM(from_text(claims["key"])), audience)
            except (SealError, UnicodeDecodeError):
                continue
        return None

    def is_resubmit(self, incoming: IncomingRequest) -> bool:
        """Return whether a request may come from the button.  This check must be cheap, because it runs for each POST."""
        if incoming.request.method != "POST" or incoming.header(b"content-length") != str(_BUTTON_BYTES):
            return False
        prefix = self._prefix.encode()
        return any(prefix in header for header in incoming.cookie_headers) and self._is_same_origin(incoming)

    async def restore(self, incoming: IncomingRequest, receive: Receive, now: float) -> tuple[IncomingRequest, Receive]:
        """Replace a request of the button by its saved form; return any other request unchanged.

        Raises FormGone if the form is no longer stored.
        """
        if not self.is_resubmit(incoming):
            return incoming, receive
        body = await _read_body(receive, _BUTTON_BYTES)
        if body is None:  # the client has disconnected, which `receive` reports again
            return incoming, receive
        name, _, id = body.decode("latin-1").partition("=")
        if name != FIELD or not is_attempt_id(id):
            return incoming, _replay(body, receive)
        form = await self.load(incoming, id, now)
        if form is None or form.target != _target(incoming) or not await self._consume(form):
            raise FormGone(Message("the form is no longer kept: it was already sent, or more than ten minutes have passed"))
        log.info("saved form replayed", host=incoming.request.host_port, path=incoming.request.path, request_id=incoming.request_id)
        return _restored_request(incoming, form), _replay(form.body, receive)

    async def _consume(self, form: SubmittedForm) -> bool:
        if self._broker is None or not await consume_once(self._broker, f"form/{form.id}", form.submitted_at + LIFETIME):
            return False
        with suppress(BrokerError):  # because it is consumed already, and expires soon
            await self._broker.delete(SAVED_FORM, form.slot)
        return True

    def _is_same_origin(self, incoming: IncomingRequest) -> bool:
        """Return whether a page of the same origin sent the form.

        gate's page sends the saved form, so a form of another origin would bypass the upstream's CSRF protection.
        Browsers send Sec-Fetch-Site, older ones Origin.  A client that sends neither is no browser.
        """
        site, origin = incoming.header(b"sec-fetch-site"), incoming.header(b"origin")
        route_origin = f"{self._scheme_for(incoming.request.host, incoming.request.port)}://{incoming.request.host_port}"
        if site:
            # "null": the page hides its address (Referrer-Policy: no-referrer).
            return site == "same-origin" and origin in ("", "null", route_origin)
        return origin == route_origin

    def _slots(self, client_address: str, size: int) -> list[str]:
        """Return the slots for this client's forms.  The hash is keyed, so that clients can't compute which of them share slots."""
        name, _, count = next(shelf for shelf in SIZE_CLASSES if size <= shelf[1])
        digest = blake2b(client_network(client_address).encode(), key=self._slot_key, digest_size=4 * SLOTS_PER_CLIENT).digest()
        numbers = [int.from_bytes(digest[offset : offset + 4], "big") % count for offset in range(0, len(digest), 4)]
        return [f"{name}/{number}" for number in dict.fromkeys(numbers)]

    def _cookie(self, id: str, value: str, max_age: int) -> str:
        return cookies.set_cookie(self._prefix + id, value, max_age=max_age, secure=self._secure)

    def clear_cookie(self, id: str) -> str:
        return self._cookie(id, "", 0)


async def _load_form(broker: BrokerClient, id: str, slot: str, cipher: AESGCM, audience: str) -> SubmittedForm | None:
    record = await broker.get(SAVED_FORM, slot)
    if record is None:
        return None
    # Another form may have replaced it in this slot; then this key does not decrypt it.
    header, _, body = decrypt([cipher], from_text(record.data["box"]), audience.encode()).partition(b"\n")
    facts: dict[str, Any] = json.loads(header)
    return SubmittedForm(id, slot, facts["target"], facts["content_type"], facts["sent_at"], body)


async def _read_body(receive: Receive, max_bytes: int) -> bytes | None:
    """Return the complete body; None if it is longer than `max_bytes` or the client disconnects."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if message["type"] != "http.request" or len(body) > max_bytes:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI `receive` that returns the body in one message, then the remaining messages."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> dict[str, Any]:
        return messages.pop() if messages else await receive()

    return receive_again


def _restored_request(incoming: IncomingRequest, form: SubmittedForm) -> IncomingRequest:
    replaced = {b"content-type": form.content_type.encode("latin-1"), b"content-length": str(len(form.body)).encode()}
    headers = [*_drop_headers(incoming.scope["headers"], replaced), *replaced.items()]
    request = replace(incoming.request, headers=headers)
    return replace(incoming, scope={**incoming.scope, "headers": headers}, request=request, headers=dict(headers))


def _drop_headers(headers: Iterable[tuple[bytes, bytes]], names: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name not in names]


def _target(incoming: IncomingRequest) -> str:
    query = f"?{incoming.request.query}" if incoming.request.query else ""
    return incoming.request.path + query


def _audience(id: str, host_port: str) -> str:
    return f"{id}@{host_port}"
