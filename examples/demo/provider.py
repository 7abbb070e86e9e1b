"""The development identity provider: pick a person, no password.  Never for real use.

`python -m examples.demo.provider PORT [--person JSON]...` serves on loopback, and prints one JSON line with its port once it listens.
"""

import argparse
import json
import logging
import os
import socket
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import oidc_provider_mock
import uvicorn
from authlib.oidc.core.grants import code as id_tokens

from examples.demo.people import USERS

TEMPLATES = Path(__file__).parent / "provider_templates"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--person", action="append", type=json.loads, help="a person's claims as JSON, with `sub`; may be repeated")
    arguments = parser.parse_args()
    users = arguments.person or [user.claims() for user in USERS]

    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"  # plain HTTP, which is what a loopback provider speaks
    # Bound here and not by uvicorn, so that the line below is printed by the process that has the port.
    listening = socket.create_server((arguments.address, arguments.port))
    print(json.dumps({"port": listening.getsockname()[1]}), flush=True)
    server = uvicorn.Server(uvicorn.Config(provider_app(users), interface="wsgi", log_config=None, timeout_graceful_shutdown=1))
    server.run(sockets=[listening])


_read_key = id_tokens.import_any_key


@cache
def _key(jwk: str) -> Any:
    return _read_key(json.loads(jwk))


# Without this, each ID token's key is parsed and checked each time (authlib 1.9.8), which costs ten times as much as the rest of a sign-in.
id_tokens.import_any_key = lambda jwk: _key(json.dumps(jwk))


def provider_app(people: list[dict[str, Any]]):
    users = [oidc_provider_mock.User(sub=user["sub"], claims={k: v for k, v in user.items() if k != "sub"}) for user in people]
    app = oidc_provider_mock.app(user_claims=users)
    # The application's templates win over the package's own, whose page fetches its style from the internet.
    app.jinja_loader = jinja2.FileSystemLoader(TEMPLATES)
    app.jinja_env.globals["people"] = people
    return app


if __name__ == "__main__":
    main()
