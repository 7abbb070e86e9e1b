"""ACME client (RFC 8555). The only module that uses the `acme` library; all calls block."""

import contextlib
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import josepy
import requests  # noqa: TID251 - the library's HTTP client, with timeouts set here
from acme import challenges, client, errors, messages
from cryptography.hazmat.primitives.asymmetric import ec

from foundation.backoff import retry_after
from foundation.client_tls import verifying_context
from foundation.values import SecretText
from proxy.listener.tls.acme_state import AcmeChallenge, ChallengeType

REQUEST_TIMEOUT_SECONDS = 15  # for one request
ORDER_TIMEOUT_SECONDS = 90  # for validation and issuance
# Raised by the library if a response has an unexpected structure.
_UNEXPECTED_RESPONSE = (ValueError, TypeError, LookupError, AttributeError)
_URL_SAFE = str.maketrans("+/", "-_")
_MAX_NONCE_RETRIES = 5  # a request is repeated if the CA rejects its nonce (RFC 8555 6.5)


class AuthorityError(Exception):
    """The CA returned an error or is unavailable.

    `retry_after` is in seconds, if the CA sent it. `is_global` is true if the error affects all hosts.
    """

    def __init__(self, reason: str, *, retry_after: float | None = None, is_global: bool = False):
        super().__init__(reason)
        self.retry_after = retry_after
        self.is_global = is_global


@dataclass(frozen=True, slots=True)
class AcmeSettings:
    """Settings of the CA and of gate's account."""

    directory: str
    email: str | None = None
    key_id: str | None = None
    mac_key: SecretText | None = None  # base64, of either alphabet


@challenges.Challenge.register
class _TlsAlpn01(challenges.KeyAuthorizationChallenge):
    """Challenge tls-alpn-01, which the library does not support; see proxy/listener/tls/acme_challenge.py."""

    typ = "tls-alpn-01"

    def validation(self, account_key: josepy.JWK, **kwargs: Any) -> str:
        return str(self.key_authorization(account_key))


@challenges.ChallengeResponse.register
class _TlsAlpn01Response(challenges.KeyAuthorizationChallengeResponse):
    typ = "tls-alpn-01"


_TlsAlpn01.response_cls = _TlsAlpn01Response
_CHALLENGE_CLASSES: Mapping[ChallengeType, type[challenges.KeyAuthorizationChallenge]] = {
    "tls-alpn-01": _TlsAlpn01,
    "http-01": challenges.HTTP01,
}


class _Network(client.ClientNetwork):
    """ACME transport that repeats requests with rejected nonces, and records the last Retry-After."""

    retry_after: float | None = None

    def _send_request(self, method: str, url: str, *args: Any, **kwargs: Any) -> requests.Response:
        response = super()._send_request(method, url, *args, **kwargs)
        wait = retry_after(response.headers.get("Retry-After", ""), time.time())
        self.retry_after = None if wait is None else max(0.0, wait)
        return response

    def post(self, *args: Any, **kwargs: Any) -> requests.Response:
        for _ in range(_MAX_NONCE_RETRIES):
            try:
                return self._post_once(*args, **kwargs)
            except messages.Error as error:
                if error.code != "badNonce":
                    raise
        return self._post_once(*args, **kwargs)


class _TlsAdapter(requests.adapters.HTTPAdapter):
    """Adapter with gate's TLS context, because the default one differs between Python versions."""

    def __init__(self, context: ssl.SSLContext):
        self._context = context
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, ssl_context=self._context)


class AcmeClient:
    """Client for one CA, with one account.

    `trusted_ca` is a PEM file, or None for the public CAs. `account` is a stored result of `account()`, or empty; `save` is called
    with it whenever it changes.
    """

    def __init__(
        self,
        settings: AcmeSettings,
        trusted_ca: Path | None,
        account: Mapping[str, Any],
        save: Callable[[dict[str, Any]], None],
        user_agent: str,
    ):
        self._settings = settings
        self._save = save
        self._key = _load_or_create_key(account)
        self._uri = account.get("uri") if isinstance(account.get("uri"), str) and account.get("key") else None
        self._network = _Network(self._key, alg=josepy.ES256, user_agent=user_agent, timeout=REQUEST_TIMEOUT_SECONDS)
        if trusted_ca is not None:
            self._network.verify_ssl = str(trusted_ca)  # type: ignore[assignment]  # requests takes a path as well
            self._network.session.mount("https://", _TlsAdapter(verifying_context(str(trusted_ca))))
        self._acme: client.ClientV2 | None = None

    def obtain(self, host: str, csr: bytes, kind: ChallengeType, publish: Callable[[AcmeChallenge], None]) -> bytes:
        """Return the certificate chain (PEM) for a signing request.

        `publish` is called before the CA validates the challenge. Raises AuthorityError.
        """
        try:
            return self._obtain(host, csr, kind, publish)
        except AuthorityError:
            raise
        except errors.ValidationError as error:
            raise AuthorityError(_validation_errors(error)) from error
        except messages.Error as error:
            if error.code in ("accountDoesNotExist", "unauthorized") and self._uri is not None:
                self._drop_account()
            is_global = error.code in ("rateLimited", "serverInternal", "accountDoesNotExist", "externalAccountRequired")
            raise AuthorityError(_format_error(error), retry_after=self._network.retry_after, is_global=is_global) from error
        except errors.TimeoutError as error:
            raise AuthorityError(f"the CA did not finish the order within {ORDER_TIMEOUT_SECONDS} seconds") from error
        except (requests.RequestException, errors.Error, josepy.errors.Error, *_UNEXPECTED_RESPONSE) as error:
            # Without its text, which may be a complete response.
            reason = f"the CA is unavailable or sent an invalid response ({type(error).__name__})"
            raise AuthorityError(reason, retry_after=self._network.retry_after, is_global=True) from error

    def _obtain(self, host: str, csr: bytes, kind: ChallengeType, publish: Callable[[AcmeChallenge], None]) -> bytes:
        acme = self._client()
        deadline = datetime.now() + timedelta(seconds=ORDER_TIMEOUT_SECONDS)  # noqa: DTZ005 - the library compares naive times
        order = acme.new_order(csr)
        for authorization in order.authorizations:
            if authorization.body.status != messages.STATUS_VALID:
                if authorization.body.identifier.value != host:
                    raise AuthorityError("the CA requested validation of another host")
                challenge = _select_challenge(authorization, kind)
                publish(AcmeChallenge(host, kind, challenge.chall.encode("token"), challenge.chall.key_authorization(self._key)))
                acme.answer_challenge(challenge, challenge.chall.response(self._key))
        order = acme.poll_authorizations(order, deadline)
        return str(acme.finalize_order(order, deadline).fullchain_pem).encode("ascii")

    def _client(self) -> client.ClientV2:
        if self._acme is None:
            directory = client.ClientV2.get_directory(self._settings.directory, self._network)
            self._acme = client.ClientV2(directory, self._network)
        if self._network.account is None:
            self._network.account = self._known_account() or self._new_account(self._acme)
        return self._acme

    def _known_account(self) -> messages.RegistrationResource | None:
        return None if self._uri is None else messages.RegistrationResource(uri=self._uri, body=messages.Registration())

    def _new_account(self, acme: client.ClientV2) -> messages.RegistrationResource:
        # Save the key first, because an account without its key is lost.
        self._save(self.account())
        contact = {"email": self._settings.email} if self._settings.email is not None else {}
        binding = None
        if self._settings.key_id is not None and self._settings.mac_key is not None:
            mac_key = self._settings.mac_key.reveal().translate(_URL_SAFE).rstrip("=")
            binding = messages.ExternalAccountBinding.from_data(self._key.public_key(), self._settings.key_id, mac_key, acme.directory)
        registration = messages.NewRegistration.from_data(terms_of_service_agreed=True, external_account_binding=binding, **contact)
        try:
            self._uri = acme.new_account(registration).uri
        except errors.ConflictError as conflict:  # the key already has an account
            self._uri = conflict.location
        self._save(self.account())
        return messages.RegistrationResource(uri=self._uri, body=messages.Registration())

    def account(self) -> dict[str, Any]:
        """Return the account as it is stored, with its private key."""
        return {"key": self._key.to_json(), "uri": self._uri}

    def _drop_account(self) -> None:
        self._uri = self._network.account = None
        self._save(self.account())

    def close(self) -> None:
        self._network.session.close()


def _load_or_create_key(account: Mapping[str, Any]) -> josepy.JWK:
    with contextlib.suppress(josepy.errors.Error, ValueError, TypeError, KeyError):
        key = josepy.JWK.from_json(account["key"])
        if isinstance(key, josepy.JWKEC) and hasattr(key.key, "private_numbers"):
            return key
    return josepy.JWKEC(key=josepy.ComparableECKey(ec.generate_private_key(ec.SECP256R1())))


def _select_challenge(authorization: messages.AuthorizationResource, kind: ChallengeType) -> messages.ChallengeBody:
    for challenge in authorization.body.challenges:
        if isinstance(challenge.chall, _CHALLENGE_CLASSES[kind]):
            return challenge
    offered = ", ".join(sorted(str(getattr(each.chall, "typ", "another")) for each in authorization.body.challenges))
    raise AuthorityError(f"the CA does not offer the challenge {kind}, only {offered}")


def _validation_errors(error: errors.ValidationError) -> str:
    failures = [
        _format_error(challenge.error) for each in error.failed_authzrs for challenge in each.body.challenges if challenge.error is not None
    ]
    return "the CA could not validate the host: " + "; ".join(failures)


def _format_error(error: messages.Error) -> str:
    """Return one printable line, because the text is untrusted."""
    text = f"{error.code or error.typ}: {error.detail or 'no reason given'}"
    return "".join(letter if letter.isprintable() else " " for letter in text)[:500]
