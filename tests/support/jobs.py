"""An issuer of tokens for CI jobs other than the provider: its keys are in a file, and it signs any claims."""

import json
import time
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from tests.support.fake_idp import EC_KEY, public_jwk, signed

ISSUER, AUDIENCE, REPOSITORY = "https://ci.example.com", "https://deploy.example.com", "example/app"
NAME = "job-keys.json"


def route_keys(directory: Path) -> dict[str, Any]:
    """Return the keys of a route that allows the jobs of one repository, and write the file with the issuer's keys."""
    file = directory / NAME
    file.write_text(json.dumps({"keys": [public_jwk(EC_KEY, "ES256", "job-1")]}))
    trusted = {"bearer_token": "jwt", "bearer_token_issuer": ISSUER, "bearer_token_audience": [AUDIENCE]}
    allowed = {"allowed_idp_claims": {"repository": [REPOSITORY]}, "pass_identity_headers": True}
    return {**trusted, "bearer_token_jwks_file": str(file), **allowed}


def token_of_job(key: Any = EC_KEY, **claims: Any) -> str:
    """Return a token that is valid for ten minutes."""
    now = int(time.time())
    payload = {"iss": ISSUER, "aud": AUDIENCE, "sub": f"repo:{REPOSITORY}", "repository": REPOSITORY, "iat": now, "exp": now + 600}
    address = {"email": "job@ci.example.com", "email_verified": True}
    return signed({"typ": "JWT", "alg": "ES256", "kid": "job-1"}, {**payload, **address, **claims}, key, "ES256")


# Tokens with other claims, or of another signer.
REFUSED_JOBS = (
    lambda: token_of_job(iss="https://evil.example"),
    lambda: token_of_job(iss=f"{ISSUER}/"),
    lambda: token_of_job(aud="https://other.example.com"),
    lambda: token_of_job(exp=int(time.time()) - 600),
    lambda: token_of_job(key=ec.generate_private_key(ec.SECP256R1())),
)
