"""ACME client (RFC 8555): the authority in its own protocol.  The only file that meets the `acme` library; every call blocks."""

import contextlib
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import josepy
import requests  # noqa: TID251 - the library's own HTTP; it is given timeouts here
from acme import challenges, client, errors, messages
from cryptography.hazmat.primitives.asymmetric import ec

from foundation.backoff import retry_after
from foundation.client_tls import verifying_context
from foundation.values import SecretText
from proxy.listener.tls.acme_state import AcmeChallenge, ChallengeType

SECONDS = 15  # for one exchange
ORDER_SECONDS = 90  # for validation and issuance
# What the library raises where an answer has another shape than it expects.
_TRIPPED = (ValueError, TypeError, LookupError, AttributeError)
_URL_SAFE = str.maketrans("+/", "-_")
_NONCES = 5  # so often a request is sent again whose nonce was refused (RFC 8555 6.5)


class AuthorityError(Exception):
    """Error of the authority.  `retry_after` is in seconds, where it said so; `concerns_all`: it would be so for any host."""

    def __init__(self, reason: str, *, retry_after: float | None = None, concerns_all: bool = False):
        super().__init__(reason)
        self.retry_after = retry_after
        self.concerns_all = concerns_all


@dataclass(frozen=True, slots=True)
class AcmeSettings:
    """ACME settings: what the configuration says about the authority and us."""

    directory: str
    email: str | None = None
    key_id: str | None = None
    mac_key: SecretText | None = None  # base64, of either alphabet


@challenges.Challenge.register
class _TlsAlpn01(challenges.KeyAuthorizationChallenge):
    """Challenge tls-alpn-01, which the library has left out; we answer it in proxy/listener/tls/acme_challenge.py."""

    typ = "tls-alpn-01"

    def validation(self, account_key: josepy.JWK, **kwargs: Any) -> str:
        return str(self.key_authorization(account_key))


@challenges.ChallengeResponse.register
class _TlsAlpn01Response(challenges.KeyAuthorizationChallengeResponse):
    typ = "tls-alpn-01"


_TlsAlpn01.response_cls = _TlsAlpn01Response
_KINDS: Mapping[ChallengeType, type[challenges.KeyAuthorizationChallenge]] = {"tls-alpn-01": _TlsAlpn01, "http-01": challenges.HTTP01}


class _Network(client.ClientNetwork):
    """ACME transport, patient with refused nonces; remembers how long it was told to wait."""

    retry_after: float | None = None

    def _send_request(self, method: str, url: str, *args: Any, **kwargs: Any) -> requests.Response:
        response = super()._send_request(method, url, *args, **kwargs)
        wait = retry_after(response.headers.get("Retry-After", ""), time.time())
        self.retry_after = None if wait is None else max(0.0, wait)
        return response

    def post(self, *args: Any, **kwargs: Any) -> requests.Response:
        for _ in range(_NONCES):
            try:
                return self._post_once(*args, **kwargs)
            except messages.Error as error:
                if error.code != "badNonce":
                    raise
        return self._post_once(*args, **kwargs)


class _OwnContext(requests.adapters.HTTPAdapter):
    """Adapter whose TLS context is ours: its library's differs between Pythons."""

    def __init__(self, context: ssl.SSLContext):
        self._context = context
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, ssl_context=self._context)


class AcmeAuthority:
    """ACME account at one authority.  `trusted_ca` is a PEM file, None for the public authorities.

    `account` is what `account()` of an earlier one gave, or empty; `keep` is called with it whenever it changes.
    """

    def __init__(
        self,
        terms: AcmeSettings,
        trusted_ca: Path | None,
        account: Mapping[str, Any],
        keep: Callable[[dict[str, Any]], None],
        user_agent: str,
    ):
        self._terms = terms
        self._keep = keep
        self._key = _key_of(account)
        self._uri = account.get("uri") if isinstance(account.get("uri"), str) and account.get("key") else None
        self._network = _Network(self._key, alg=josepy.ES256, user_agent=user_agent, timeout=SECONDS)
        if trusted_ca is not None:
            self._network.verify_ssl = str(trusted_ca)  # type: ignore[assignment]  # requests takes a path as well
            self._network.session.mount("https://", _OwnContext(verifying_context(str(trusted_ca))))
        self._acme: client.ClientV2 | None = None

    def obtain(self, host: str, csr: bytes, kind: ChallengeType, publish: Callable[[AcmeChallenge], None]) -> bytes:
        """Certificate chain for this request, PEM.  `publish` is called before the authority is told to look.  AuthorityError."""
        try:
            return self._obtain(host, csr, kind, publish)
        except AuthorityError:
            raise
        except errors.ValidationError as error:
            raise AuthorityError(_refusals(error)) from error
        except messages.Error as error:
            if error.code in ("accountDoesNotExist", "unauthorized") and self._uri is not None:
                self._forget_account()
            concerns_all = error.code in ("rateLimited", "serverInternal", "accountDoesNotExist", "externalAccountRequired")
            raise AuthorityError(_said(error), retry_after=self._network.retry_after, concerns_all=concerns_all) from error
        except errors.TimeoutError as error:
            raise AuthorityError(f"the CA did not finish the order within {ORDER_SECONDS} seconds") from error
        except (requests.RequestException, errors.Error, josepy.errors.Error, *_TRIPPED) as error:
            # Not its text: that may be a whole answer.
            reason = f"the CA is unavailable or sent an invalid response ({type(error).__name__})"
            raise AuthorityError(reason, retry_after=self._network.retry_after, concerns_all=True) from error

    def _obtain(self, host: str, csr: bytes, kind: ChallengeType, publish: Callable[[AcmeChallenge], None]) -> bytes:
        acme = self._client()
        deadline = datetime.now() + timedelta(seconds=ORDER_SECONDS)  # noqa: DTZ005 - the library compares with this
        order = acme.new_order(csr)
        for authorization in order.authorizations:
            if authorization.body.status != messages.STATUS_VALID:
                if authorization.body.identifier.value != host:
                    raise AuthorityError("the CA requested validation of another host")
                challenge = _chosen(authorization, kind)
                publish(AcmeChallenge(host, kind, challenge.chall.encode("token"), challenge.chall.key_authorization(self._key)))
                acme.answer_challenge(challenge, challenge.chall.response(self._key))
        order = acme.poll_authorizations(order, deadline)
        return str(acme.finalize_order(order, deadline).fullchain_pem).encode("ascii")

    def _client(self) -> client.ClientV2:
        if self._acme is None:
            directory = client.ClientV2.get_directory(self._terms.directory, self._network)
            self._acme = client.ClientV2(directory, self._network)
        if self._network.account is None:
            self._network.account = self._known_account() or self._new_account(self._acme)
        return self._acme

    def _known_account(self) -> messages.RegistrationResource | None:
        return None if self._uri is None else messages.RegistrationResource(uri=self._uri, body=messages.Registration())

    def _new_account(self, acme: client.ClientV2) -> messages.RegistrationResource:
        # The key is kept first: an account whose key is lost can't be used again.
        self._keep(self.account())
        known = {"email": self._terms.email} if self._terms.email is not None else {}
        binding = None
        if self._terms.key_id is not None and self._terms.mac_key is not None:
            mac_key = self._terms.mac_key.reveal().translate(_URL_SAFE).rstrip("=")
            binding = messages.ExternalAccountBinding.from_data(self._key.public_key(), self._terms.key_id, mac_key, acme.directory)
        wanted = messages.NewRegistration.from_data(terms_of_service_agreed=True, external_account_binding=binding, **known)
        try:
            self._uri = acme.new_account(wanted).uri
        except errors.ConflictError as conflict:  # this key has one already
            self._uri = conflict.location
        self._keep(self.account())
        return messages.RegistrationResource(uri=self._uri, body=messages.Registration())

    def account(self) -> dict[str, Any]:
        """Account as `Storage` keeps it: the private key is in it."""
        return {"key": self._key.to_json(), "uri": self._uri}

    def _forget_account(self) -> None:
        self._uri = self._network.account = None
        self._keep(self.account())

    def close(self) -> None:
        self._network.session.close()


def _key_of(account: Mapping[str, Any]) -> josepy.JWK:
    with contextlib.suppress(josepy.errors.Error, ValueError, TypeError, KeyError):
        key = josepy.JWK.from_json(account["key"])
        if isinstance(key, josepy.JWKEC) and hasattr(key.key, "private_numbers"):
            return key
    return josepy.JWKEC(key=josepy.ComparableECKey(ec.generate_private_key(ec.SECP256R1())))


def _chosen(authorization: messages.AuthorizationResource, kind: ChallengeType) -> messages.ChallengeBody:
    for challenge in authorization.body.challenges:
        if isinstance(challenge.chall, _KINDS[kind]):
            return challenge
    offered = ", ".join(sorted(str(getattr(each.chall, "typ", "another")) for each in authorization.body.challenges))
    raise AuthorityError(f"the CA does not offer the challenge {kind}, only {offered}")


def _refusals(error: errors.ValidationError) -> str:
    said = [_said(challenge.error) for each in error.failed_authzrs for challenge in each.body.challenges if challenge.error is not None]
    return "the CA could not validate the host: " + "; ".join(said)


def _said(error: messages.Error) -> str:
    """One line; what the authority says is a foreign text."""
    text = f"{error.code or error.typ}: {error.detail or 'no reason given'}"
    return "".join(letter if letter.isprintable() else " " for letter in text)[:500]
