"""What does it take to tell an application who asks: five templates, some with what is each request's own, and the provider's token?

    python -m bench.told_headers

Goals: nothing for a route without any (0.3 µs, which is the question), 3 µs for five templates.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from authorize.policy.compiled_route import CompiledRoute, compile_route
from authorize.policy.identity import Identity
from authorize.policy.request import access_request
from authorize.upstream.identity_headers import Headers, IdentityHeaders
from authorize.upstream.provider_tokens import ProviderTokens
from config.routes.route import Route
from databroker.client import LocalBroker
from databroker.records import SESSION, SessionRecord
from databroker.store.memory import MemoryStore
from foundation.crypto.signing_key import SigningKey
from tests.support.options import MINIMAL, make_options

ROUNDS, CALLS = 200, 500
WORDS = ("${claim.email}", "${groups}", "${user}", "${session}", "a ${claim.name}")
FIVE = {f"X-Told-{number}": text for number, text in enumerate(WORDS)}
OF_THE_REQUEST = {**FIVE, "X-Told-4": "${claim.name} ${request_id}"}
TOKEN = {"Authorization": "Bearer ${access_token}"}


def route(host: str, **keys: Any) -> CompiledRoute:
    """Route of a host of its own: those of the same address share what is remembered."""
    said = {"from": f"https://{host}.example.com", "to": "http://127.0.0.1:9000", "allow_any_authenticated_user": True, **keys}
    return compile_route(Route.model_validate(said), "policy[0]")


def microseconds(call: Callable[[], object]) -> float:
    """The processor's time, the best of many short rounds."""

    def one_round() -> float:
        started = time.process_time()
        for _ in range(CALLS):
            call()
        return (time.process_time() - started) / CALLS * 1e6

    return min(one_round() for _ in range(ROUNDS))


def once(work: Any) -> Headers:
    """Result of a coroutine that has nothing to wait for, without a loop's own price."""
    try:
        work.send(None)
    except StopIteration as done:
        found: Headers = done.value
        return found
    raise SystemExit("the bench measures the wrong thing: it waits")


def main() -> int:
    now = time.time()
    person = Identity(
        "s1", "oidc/1", "1", "oidc", now + 50_000, now, email="a@b.com", rule_email="a@b.com", name="Ann", groups=("g1", "g2")
    )
    asked = access_request("GET", b"app.example.com", b"/items/42", b"", frozenset({443}))
    with tempfile.TemporaryDirectory() as directory:
        options = make_options(Path(directory))
        headers = IdentityHeaders(options, SigningKey.from_options(options))
    passing = route("tokens", pass_provider_tokens=True, set_request_headers=TOKEN)
    store = MemoryStore()
    session = SessionRecord("s1", "oidc/1", "1", "oidc", now, now + 50_000, access_token="t" * 900, issuer=MINIMAL["idp_provider_url"])
    asyncio.run(LocalBroker(store).put(SESSION, "s1", session.to_data()))
    tokens = ProviderTokens(options, [passing], LocalBroker(store))
    asyncio.run(tokens.headers_for(passing, person))

    def told(compiled: CompiledRoute) -> float:
        if len(headers.headers_for(asked, compiled, person, now, "the-id")) != len(compiled.route.set_request_headers):
            raise SystemExit("the bench measures the wrong thing")
        return microseconds(lambda: headers.headers_for(asked, compiled, person, now, "the-id"))

    found = {
        "no template": (told(route("none")), 0.3),
        "five templates": (told(route("five", set_request_headers=FIVE)), 3.0),
        "one of them the request's": (told(route("each", set_request_headers=OF_THE_REQUEST)), 3.0),
        "the provider's token": (microseconds(lambda: once(tokens.headers_for(passing, person))), 3.0),
    }
    for name, (each, goal) in found.items():
        print(f"{name:>28} {each:6.2f} µs (goal: {goal})")
    return 0 if all(each <= goal for each, goal in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
