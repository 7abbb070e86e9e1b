"""npm `oidc-provider`, a certified third-party OpenID provider, as a child process."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.children import Child

DIRECTORY = Path(__file__).parent / "oidc_provider"
# Without PAR: the request goes through the browser, which can change it.
OPEN_REQUESTS = {"pushedAuthorizationRequests": {"enabled": False}}
CLIENT_ID, CLIENT_SECRET = "gate-tests", "not a secret"


def why_not_here() -> str:
    """Return what is missing to run it, "" if nothing is."""
    if shutil.which("node") is None:
        return "node is missing: apt-get install nodejs"
    if not (DIRECTORY / "node_modules" / "oidc-provider").is_dir():
        return "oidc-provider is missing: npm ci --prefix tests/support/oidc_provider"
    return ""


class CertifiedProvider:
    """`with CertifiedProvider(redirect_uri) as provider:` listens on a free loopback port, as `provider.url`.

    `client` is additional client metadata (RFC 7591); `features` are the provider's, named as in its library.
    """

    def __init__(self, redirect_uri: str, *, features: Mapping[str, Any] | None = None, **client: Any):
        settings = {"redirect_uris": [redirect_uri], "features": features or {}, **client}
        self.child = Child("node", DIRECTORY / "server.mjs", json.dumps(settings))
        self.url: str = json.loads(self.child.wait_for_line('"issuer"'))["issuer"]

    def __enter__(self) -> "CertifiedProvider":
        return self

    def __exit__(self, *_: object) -> None:
        self.child.__exit__()
