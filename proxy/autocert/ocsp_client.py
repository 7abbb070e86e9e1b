"""OCSP client (RFC 6960): asks whether a certificate is still good.  Its authority's answer is verified before anybody is shown it;
asking blocks.
"""

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

SECONDS = 10.0
MOST_BYTES = 64 * 1024
_CLOCKS_DIFFER = timedelta(minutes=5)
_WEAK = ("md5", "sha1")


class UnverifiedStaple(ValueError):
    """Error of an OCSP response: none about this certificate that clients would believe, or none at all."""


@dataclass(frozen=True, slots=True)
class Staple:
    """OCSP staple.  `is_revoked`: then it is for us alone, no client is shown it."""

    response: bytes
    refresh: datetime
    ends: datetime
    is_revoked: bool


def ask(url: str, chain: CertificateChain) -> bytes:
    """OCSP response of the certificate's own responder, not verified yet.  Raises UnverifiedStaple where there is none."""
    if chain.issuer is None:
        raise UnverifiedStaple("the chain contains no issuer")
    # RFC 5019 2.1.1: responders know certificates by SHA-1; nothing is proved by it.
    request = ocsp.OCSPRequestBuilder().add_certificate(chain.leaf, chain.issuer, hashes.SHA1()).build()  # noqa: S303
    content = request.public_bytes(serialization.Encoding.DER)
    headers = {"Content-Type": "application/ocsp-request", "Accept": "application/ocsp-response"}
    try:
        with httpx.stream("POST", url, content=content, headers=headers, timeout=SECONDS) as answer:
            answer.raise_for_status()
            received = b""
            for part in answer.iter_bytes():
                received += part
                if len(received) > MOST_BYTES:
                    raise UnverifiedStaple("the response is too long")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnverifiedStaple(f"the responder is unavailable ({type(error).__name__})") from error
    return received


# enforcement-point: Services and certificates: OCSP responses
def verify(response: bytes, chain: CertificateChain, now: datetime) -> Staple:
    """Staple of a response (RFC 6960 3.2).  UnverifiedStaple unless it is about this certificate, current,
    and signed by or for its issuer.
    """
    if chain.issuer is None:
        raise UnverifiedStaple("the chain contains no issuer")
    try:
        parsed = ocsp.load_der_ocsp_response(response)
        if parsed.response_status is not ocsp.OCSPResponseStatus.SUCCESSFUL:
            raise UnverifiedStaple(f"the responder returned {parsed.response_status.name.lower()}")
        _check_signature(parsed, chain.issuer, now)
        about = next((each for each in parsed.responses if _is_about(each, chain, chain.issuer)), None)
    except UnverifiedStaple:
        raise
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.ExtensionNotFound) as error:
        raise UnverifiedStaple("the response is malformed, or its signature is not by the CA") from error
    if about is None:
        raise UnverifiedStaple("the response is about another certificate")
    begins, ends = about.this_update_utc, about.next_update_utc
    if ends is None or begins > now + _CLOCKS_DIFFER or ends <= now:
        raise UnverifiedStaple("the response is not current")
    if about.certificate_status is ocsp.OCSPCertStatus.UNKNOWN:
        raise UnverifiedStaple("the certificate is unknown to the responder")
    return Staple(response, begins + (ends - begins) / 2, ends, about.certificate_status is ocsp.OCSPCertStatus.REVOKED)


def _is_about(single: ocsp.OCSPSingleResponse, chain: CertificateChain, issuer: x509.Certificate) -> bool:
    wanted = ocsp.OCSPRequestBuilder().add_certificate(chain.leaf, issuer, single.hash_algorithm).build()
    return (single.serial_number, single.issuer_name_hash, single.issuer_key_hash) == (
        wanted.serial_number,
        wanted.issuer_name_hash,
        wanted.issuer_key_hash,
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
    """The issuer, and whom it has named as a responder (RFC 6960 4.2.2.2)."""
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
