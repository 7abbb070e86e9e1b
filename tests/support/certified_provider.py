"""npm `oidc-provider`, a certified OpenID provider that nobody here wrote, as a child process."""

import json
import shutil
from pathlib import Path
from typing import Any

from tests.support.children import Child

DIRECTORY = Path(__file__).parent / "oidc_provider"
CLIENT_ID, CLIENT_SECRET = "gate-tests", "not a secret"


def why_not_here() -> str:
    """What is missing, "" where nothing is."""
    if shutil.which("node") is None:
        return "node is missing: apt-get install nodejs"
    if not (DIRECTORY / "node_modules" / "oidc-provider").is_dir():
        return "oidc-provider is missing: npm ci --prefix tests/support/oidc_provider"
    return ""


class CertifiedProvider:
    """`with CertifiedProvider(redirect_uri) as provider:` listens on a free loopback port, as `provider.url`.

    `client` is further metadata of our client, as RFC 7591 names it.
    """

    def __init__(self, redirect_uri: str, **client: Any):
        self.child = Child("node", DIRECTORY / "server.mjs", json.dumps({"redirect_uris": [redirect_uri], **client}))
        self.url: str = json.loads(self.child.wait_for_line('"issuer"'))["issuer"]

    def __enter__(self) -> "CertifiedProvider":
        return self

    def __exit__(self, *_: object) -> None:
        self.child.__exit__()
