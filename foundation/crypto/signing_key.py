"""Key that signs the identity assertions for upstreams: from `signing_key`, or generated at start."""

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat, load_pem_private_key
from jwt.algorithms import get_default_algorithms

from foundation.crypto.sealing import CryptoConfig

log = structlog.get_logger(__name__)

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey

MIN_RSA_BITS = 2048
_MEMBERS = {"ES256": ("kty", "crv", "x", "y"), "EdDSA": ("kty", "crv", "x"), "RS256": ("kty", "n", "e")}


class SigningKey:
    """Private key and its only algorithm. `is_configured` is False for a generated key."""

    def __init__(self, private_key: PrivateKey, algorithm: str, *, is_configured: bool):
        self.algorithm = algorithm
        self.is_configured = is_configured
        self._private_key = private_key
        # Exactly the members that RFC 7638 3.2 and RFC 8037 2 require.
        public = get_default_algorithms()[algorithm].to_jwk(private_key.public_key(), as_dict=True)
        self._public_members = {name: public[name] for name in _MEMBERS[algorithm]}
        self.kid = thumbprint(self._public_members)
        # Pomerium sends `alg` and `kid` only; PyJWT omits `typ` if it is None.
        self._header = {"kid": self.kid, "typ": None}

    def __repr__(self) -> str:
        return f"<SigningKey {self.algorithm} {self.kid[:12]} {'configured' if self.is_configured else 'generated'}>"

    @classmethod
    def from_options(cls, options: CryptoConfig, previous: "SigningKey | None" = None) -> "SigningKey":
        """Return the configured key, or a generated one.

        `previous` is the key before a reload. A generated key of the same algorithm is reused, so that upstreams need not fetch a new one.
        """
        if options.signing_key is not None:
            return cls._of_pem(options.signing_key, options.signing_key_algorithm, is_configured=True)
        algorithm = options.signing_key_algorithm
        if previous is not None and not previous.is_configured and previous.algorithm == algorithm:
            return previous
        generated = cls(_generated(algorithm), algorithm, is_configured=False)
        log.info("signing key generated", public_key=generated.public_key_base64(), algorithm=generated.algorithm, kid=generated.kid)
        return generated

    @classmethod
    def generated(cls, pem: bytes, algorithm: str) -> "SigningKey":
        """Return the key that another worker process generated; `pem` is its `private_pem`."""
        return cls._of_pem(pem, algorithm, is_configured=False)

    @classmethod
    def _of_pem(cls, pem: bytes, algorithm: str, *, is_configured: bool) -> "SigningKey":
        """Load a PEM key; the configuration has checked that it fits the algorithm."""
        return cls(load_pem_private_key(pem, password=None), algorithm, is_configured=is_configured)  # type: ignore[arg-type]

    def private_pem(self) -> bytes:
        return self._private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self._private_key, algorithm=self.algorithm, headers=self._header)

    def jwk(self) -> dict[str, str]:
        """Return the public key as in `/.well-known/gate/jwks.json` (RFC 7517)."""
        return {"use": "sig", "alg": self.algorithm, "kid": self.kid, **self._public_members}

    def public_key_base64(self) -> str:
        """Return the DER SubjectPublicKeyInfo in base64."""
        der = self._private_key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(der).decode("ascii")


# enforcement-point: Upstream requests: Published public keys
def validate_jwk(claimed: Mapping[str, Any]) -> dict[str, str]:
    """Return the members of a public signing key. Raise ValueError for missing or extra members, or a `kid` that is not its thumbprint."""
    kind = _MEMBERS.get(str(claimed.get("alg")))
    if kind is None or claimed.get("use") != "sig" or claimed.keys() != {"use", "alg", "kid", *kind}:
        raise ValueError("not a public key of gate")
    members = {name: str(claimed[name]) for name in kind}
    if claimed["kid"] != thumbprint(members):
        raise ValueError("the key id is not the thumbprint")
    return {"use": "sig", "alg": str(claimed["alg"]), "kid": str(claimed["kid"]), **members}


def thumbprint(public_members: dict[str, str]) -> str:
    """Return the JWK thumbprint (RFC 7638) in lower-case hex: SHA-256 over the sorted required members."""
    return hashlib.sha256(json.dumps(public_members, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _generated(algorithm: str) -> PrivateKey:
    match algorithm:
        case "EdDSA":
            return ed25519.Ed25519PrivateKey.generate()
        case "RS256":
            return rsa.generate_private_key(public_exponent=65537, key_size=MIN_RSA_BITS)
        case _:
            return ec.generate_private_key(ec.SECP256R1())
