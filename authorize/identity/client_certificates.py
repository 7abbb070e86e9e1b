"""Client certificate verification: the only place that decides whether a client certificate is valid for a route."""

import base64
import hashlib
import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import Criticality, ExtensionPolicy, Policy, PolicyBuilder, Store, VerificationError

from authorize.policy.compiled_route import ClientAuthority, CompiledRoute
from authorize.policy.policy_request import ClientCertificate, PolicyRequest
from foundation.bounded_cache import MIB, BoundedCache, bounded_lru_cache, total_length

MAX_CACHED = 4096
MAX_CHAIN_LENGTH = 8
MAX_CACHED_CHAIN_BYTES = 16 * 1024  # bytes of a chain
# The library wraps the messages of gate's validators, and includes complete certificates.
_VALIDATOR_MESSAGE = re.compile(r"ValueError: (.*?)(?: \(encountered processing|$)")
_LIBRARY_NOISE = re.compile(r"^validation failed: |candidates exhausted: | \(encountered processing.*\)")
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_PARSE_ERRORS = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


@dataclass(frozen=True, slots=True)
class _ChainValidity:
    """Validity of a chain.  `problem` is "" if it is valid, from `first` to `last` in Unix seconds."""

    problem: str
    first: float
    last: float


class ClientCertificates:
    """Cache of verified chains.  A chain is cached while all its certificates are valid.  Failures are not cached."""

    def __init__(self) -> None:
        self._valid_chains: BoundedCache[tuple[str, tuple[bytes, ...]], _ChainValidity] = BoundedCache(MAX_CACHED, 16 * MIB)

    def __repr__(self) -> str:
        return f"<ClientCertificates {len(self._valid_chains)} good chains>"

    def with_verification(self, request: PolicyRequest, authority: ClientAuthority | None, now: float) -> PolicyRequest:
        """Return the request with the result of verifying its certificate for this authority.  Previous results are discarded."""
        certificate = request.client_certificate
        if authority is None or certificate is None:
            return request
        error = self._verification_error(certificate.chain, authority, now)
        return replace(request, client_certificate=replace(certificate, verification_errors={authority.id: error}))

    def _verification_error(self, chain: tuple[bytes, ...], authority: ClientAuthority, now: float) -> str:
        key = authority.id, chain
        known = self._valid_chains.get(key)
        if known is not None and known.first <= now <= known.last:
            return ""
        validity = verify(chain, authority.pem, now)
        if not validity.problem:
            self._valid_chains.put(key, validity, total_length(*chain))
        return validity.problem


class CertificateHosts:
    """Hosts whose routes require a client certificate.  Other hosts must not request one, because browsers would prompt for it."""

    def __init__(self, routes: Iterable[CompiledRoute]):
        self._hosts = frozenset(route.route.from_.host for route in routes if route.client_ca is not None)

    def requires_certificate(self, server_name: str | None) -> bool:
        if server_name is None:
            return bool(self._hosts)
        name = server_name.lower().removesuffix(".")
        return name in self._hosts or f"*.{name.partition('.')[2]}" in self._hosts


def parse_pem_chain(certificate: str) -> tuple[bytes, ...]:
    """Return the certificates of a chain as Envoy sends it (percent-encoded PEM).

    They are DER, the client's own first.  Empty if the chain cannot be parsed.
    """
    pems = _PEM.findall(unquote(certificate))
    try:
        return tuple(ssl.PEM_cert_to_DER_cert(pem) for pem in pems)
    except ValueError:
        return ()


def parse_certificate(chain: tuple[bytes, ...]) -> ClientCertificate | None:
    """Return the certificate that a client presented (DER, its own first).  None if it presented none, or it cannot be parsed."""
    if not chain:
        return None
    return _read(chain)


# All requests of a connection have the same chain.  An unauthenticated client may send a hundred kilobytes per handshake.
@bounded_lru_cache(1024, max_key_length=MAX_CACHED_CHAIN_BYTES, size=total_length)
def _read(chain: tuple[bytes, ...]) -> ClientCertificate | None:
    try:
        leaf = x509.load_der_x509_certificate(chain[0])
        public_key = leaf.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        subject = leaf.subject.rfc4514_string()
    except _PARSE_ERRORS:
        return None
    return ClientCertificate(
        fingerprint=hashlib.sha256(chain[0]).hexdigest(),
        spki_hash=base64.b64encode(hashlib.sha256(public_key).digest()).decode(),
        subject=subject,
        chain=chain,
    )


# enforcement-point: Identity: Client certificate verification
def verify(chain: tuple[bytes, ...], authority_pem: bytes, now: float) -> _ChainValidity:
    """Verify a path from the client's certificate, over the certificates that it sent, to one of these authorities (RFC 5280 6).

    It checks signatures, validity at `now`, basic constraints, key usage, and that the certificate is for clients.  A certificate that
    cannot be parsed is invalid.
    """
    try:
        certificates = [x509.load_der_x509_certificate(each) for each in chain[: MAX_CHAIN_LENGTH + 1]]
        if not certificates or len(certificates) > MAX_CHAIN_LENGTH:
            return _invalid("it sent no certificate, or too many")
        verifier = (
            PolicyBuilder()
            .store(_store(authority_pem))
            .time(datetime.fromtimestamp(now, UTC).replace(tzinfo=None))
            .max_chain_depth(MAX_CHAIN_LENGTH)
            .extension_policies(ca_policy=_AUTHORITY, ee_policy=_CLIENT)
            .build_client_verifier()
        )
        verified = verifier.verify(certificates[0], certificates[1:]).chain
    except VerificationError as error:
        return _invalid(_describe(error, certificates[0], now))
    except _PARSE_ERRORS as error:
        return _invalid(f"it can't be read ({type(error).__name__})")
    if len(verified) < 2:
        return _invalid("it is a CA certificate, not a client certificate")
    return _ChainValidity(
        "",
        max(each.not_valid_before_utc.timestamp() for each in verified),
        min(each.not_valid_after_utc.timestamp() for each in verified),
    )


def _invalid(problem: str) -> _ChainValidity:
    return _ChainValidity(problem, 0.0, 0.0)


def _describe(error: VerificationError, certificate: x509.Certificate, now: float) -> str:
    if now > certificate.not_valid_after_utc.timestamp():
        return f"it expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    if now < certificate.not_valid_before_utc.timestamp():
        return f"it is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    if (message := _VALIDATOR_MESSAGE.search(str(error))) is not None:
        return message[1]
    return f"no chain to the CA: {_LIBRARY_NOISE.sub('', str(error))}"


@lru_cache(maxsize=256)
def _store(pem: bytes) -> Store:
    return Store(x509.load_pem_x509_certificates(pem))


def _require_cert_sign(policy: Policy, certificate: x509.Certificate, usage: Any) -> None:
    if usage is not None and not usage.key_cert_sign:
        raise ValueError("an issuer in its chain may not sign certificates")


def _require_client_issuer(policy: Policy, certificate: x509.Certificate, usage: Any) -> None:
    if usage is not None and not {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(usage):
        raise ValueError("an issuer in its chain may not issue client certificates")


def _require_no_authority(policy: Policy, certificate: x509.Certificate, constraints: Any) -> None:
    if constraints is not None and constraints.ca:
        raise ValueError("it is a CA certificate, not a client certificate")


def _require_client_auth(policy: Policy, certificate: x509.Certificate, usage: Any) -> None:
    if ExtendedKeyUsageOID.CLIENT_AUTH not in usage:
        raise ValueError("it is not for clients (extended key usage clientAuth)")


def _require_digital_signature(policy: Policy, certificate: x509.Certificate, usage: Any) -> None:
    if usage is not None and not usage.digital_signature:
        raise ValueError("its key may not sign (key usage digitalSignature)")


# Private CAs often ignore rules of the public web: names in the subject only, no key usage in the root.  Only checks that protect are
# required.
_AUTHORITY = (
    ExtensionPolicy.permit_all()
    .require_present(x509.BasicConstraints, Criticality.AGNOSTIC, None)  # that it says CA, the library demands
    .may_be_present(x509.KeyUsage, Criticality.AGNOSTIC, _require_cert_sign)
    .may_be_present(x509.ExtendedKeyUsage, Criticality.AGNOSTIC, _require_client_issuer)
)
_CLIENT = (
    ExtensionPolicy.permit_all()
    .may_be_present(x509.BasicConstraints, Criticality.AGNOSTIC, _require_no_authority)
    .may_be_present(x509.KeyUsage, Criticality.AGNOSTIC, _require_digital_signature)
    .require_present(x509.ExtendedKeyUsage, Criticality.AGNOSTIC, _require_client_auth)
)
