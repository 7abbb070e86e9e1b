"""Keys of OAuth clients, and assertions that they sign (`private_key_jwt`)."""

import json
from collections.abc import Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

CLIENT_KEY, OTHER_KEY = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())


def public_jwk(key: ec.EllipticCurvePrivateKey = CLIENT_KEY, kid: str = "k1") -> dict[str, Any]:
    return {**json.loads(ECAlgorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig"}


def sign(
    payload: Mapping[str, Any],
    key: ec.EllipticCurvePrivateKey = CLIENT_KEY,
    *,
    kid: str | None = "k1",
    algorithm: str = "ES256",
    **header: Any,
) -> str:
    headers = {**header, **({"kid": kid} if kid is not None else {})}
    return jwt.PyJWS().encode(json.dumps(payload).encode(), key, algorithm=algorithm, headers=headers)
