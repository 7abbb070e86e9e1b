"""OCSP client (RFC 6960). Responses are verified before they are stapled; all calls block."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import httpx
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID

from proxy.autocert.stored_certificate import CertificateChain

TIMEOUT_SECONDS = 10.0
MAX_RESPONSE_BYTES = 64 * 1024
_CLOCK_SKEW = timedelta(minutes=5)
_WEAK = ("md5", "sha1")
REVOKED, UNKNOWN = ocsp.OCSPCertStatus.REVOKED, ocsp.OCSPCertStatus.UNKNOWN


class UnverifiedStaple(ValueError):
    """No OCSP response, or one that clients would not accept for this certificate."""


@dataclass(frozen=True, slots=True)
class Staple:
    """Verified OCSP response. If `is_revoked`, it is not stapled."""

    response: bytes
    refresh_at: datetime
    not_after: datetime
    is_revoked: bool


def fetch(url: str, chain: CertificateChain) -> bytes:
    """Fetch an OCSP response from the certificate's responder, unverified. Raises UnverifiedStaple if there is none."""
    if chain.issuer is None:
        raise UnverifiedStaple("the chain contains no issuer")
    # RFC 5019 2.1.1: responders identify certificates by SHA-1; security does not depend on it.
    request = ocsp.OCSPRequestBuilder().add_certificate(chain.leaf, chain.issuer, hashes.SHA1()).build()  # noqa: S303
    content = request.public_bytes(serialization.Encoding.DER)
    headers = {"Content-Type": "application/ocsp-request", "Accept": "application/ocsp-response"}
    try:
        with httpx.stream("POST", url, content=content, headers=headers, timeout=TIMEOUT_SECONDS) as response_stream:
            response_stream.raise_for_status()
            received = b""
            for part in response_stream.iter_bytes():
                received += part
                if len(received) > MAX_RESPONSE_BYTES:
                    raise UnverifiedStaple("the response is too long")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnverifiedStaple(f"the responder is unavailable ({type(error).__name__})") from error
    return received


# enforcement-point: Services and certificates: OCSP responses
def verify(response: bytes, chain: CertificateChain, now: datetime) -> Staple:
    """Verify a response (RFC 6960 3.2).

    Raises UnverifiedStaple unless it is for this certificate, current, and signed by the issuer or its delegated responder.
    """
    if chain.issuer is None:
        raise UnverifiedStaple("the chain contains no issuer")
    try:
        parsed = ocsp.load_der_ocsp_response(response)
        if parsed.response_status is not ocsp.OCSPResponseStatus.SUCCESSFUL:
            raise UnverifiedStaple(f"the responder returned {parsed.response_status.name.lower()}")
        _check_signature(parsed, chain.issuer, now)
        single_response = next((each for each in parsed.responses if _matches(each, chain, chain.issuer)), None)
    except UnverifiedStaple:
        raise
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.ExtensionNotFound) as error:
        raise UnverifiedStaple("the response is malformed, or its signature is not by the CA") from error
    if single_response is None:
        raise UnverifiedStaple("the response is about another certificate")
    this_update, not_after = single_response.this_update_utc, single_response.next_update_utc
    if not_after is None or this_update > now + _CLOCK_SKEW or not_after <= now:
        raise UnverifiedStaple("the response is not current")
    if single_response.certificate_status is UNKNOWN:
        raise UnverifiedStaple("the certificate is unknown to the responder")
    return Staple(
        response,
        this_update + (not_after - this_update) / 2,
        not_after,
        single_response.certificate_status is REVOKED,
    )


def _matches(single: ocsp.OCSPSingleResponse, chain: CertificateChain, issuer: x509.Certificate) -> bool:
    expected = ocsp.OCSPRequestBuilder().add_certificate(chain.leaf, issuer, single.hash_algorithm).build()
    return (single.serial_number, single.issuer_name_hash, single.issuer_key_hash) == (
        expected.serial_number,
        expected.issuer_name_hash,
        expected.issuer_key_hash,
    )


def _check_signature(response: ocsp.OCSPResponse, issuer: x509.Certificate, now: datetime) -> None:
    for signer in _signers(response, issuer, now):
        try:
            _verify(signer, response)
        except InvalidSignature:
            continue
        return
    raise UnverifiedStaple("the signature is not by the CA")


def _signers(response: ocsp.OCSPResponse, issuer: x509.Certificate, now: datetime) -> Iterator[x509.Certificate]:
    """Yield the issuer and its delegated responders (RFC 6960 4.2.2.2)."""
    yield issuer
    for certificate in response.certificates:
        try:
            certificate.verify_directly_issued_by(issuer)
            usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
            continue
        is_current = certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc
        if is_current and ExtendedKeyUsageOID.OCSP_SIGNING in usages:
            yield certificate


def _verify(signer: x509.Certificate, response: ocsp.OCSPResponse) -> None:
    key, algorithm = signer.public_key(), response.signature_hash_algorithm
    if algorithm is not None and algorithm.name in _WEAK:
        raise UnverifiedStaple("the signature is too weak")
    if isinstance(key, rsa.RSAPublicKey) and algorithm is not None:
        key.verify(response.signature, response.tbs_response_bytes, padding.PKCS1v15(), algorithm)
    elif isinstance(key, ec.EllipticCurvePublicKey) and algorithm is not None:
        key.verify(response.signature, response.tbs_response_bytes, ec.ECDSA(algorithm))
    elif isinstance(key, ed25519.Ed25519PublicKey):
        key.verify(response.signature, response.tbs_response_bytes)
    else:
        raise InvalidSignature
