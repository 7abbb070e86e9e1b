"""Only what was judged comes in, once, and is what Envoy saw."""

from typing import Any

import pytest

from proxy.envoy.head import EnvoyRequestHead
from proxy.envoy.internal_listener import InternalListener, NoHandoffToken
from proxy.envoy.listener import HANDOFF_TOKEN
from proxy.incoming import TLS
from tests.support.asgi import Answer, body_of, http_scope
from tests.unit.proxy.envoy.conftest import Ask


class Application:
    def __init__(self) -> None:
        self.scopes: list[dict[str, Any]] = []

    async def __call__(self, scope: dict[str, Any], receive: object, send: object) -> None:
        self.scopes.append(scope)


def from_envoy(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    scope = http_scope("http://app.example.com/", client="") | {"client": None, "extensions": {"gate.tunnel": {}}}
    return scope | {"headers": [*scope["headers"], *headers]}


async def test_the_application_sees_the_client_that_envoy_saw(ask: Ask) -> None:
    application = Application()
    internal_listener = InternalListener(application, "https")
    token = internal_listener.admit(EnvoyRequestHead.of(ask("/", ("x-gate-edge-proto", "http"))))
    added = ((b"x-forwarded-proto", b"https"), (b"x-envoy-internal", b"true"), (b"x-forwarded-client-cert", b"x"), (b"accept", b"*/*"))
    await internal_listener(from_envoy((HANDOFF_TOKEN.encode(), token), *added), body_of(), Answer().send)
    (scope,) = application.scopes
    assert (scope["client"], scope["scheme"]) == (["192.0.2.7", 5000], "https")
    assert scope["extensions"] == {"gate.tunnel": {}, TLS: {"server_name": "app.example.com", "chain": ()}}
    assert scope["headers"] == [(b"host", b"app.example.com"), (b"accept", b"*/*"), (b"x-forwarded-proto", b"http")]


async def test_without_a_handoff_token_that_counts_nobody_comes_in(ask: Ask) -> None:
    application = Application()
    internal_listener = InternalListener(application, "https")
    spent, forgotten, twice = (internal_listener.admit(EnvoyRequestHead.of(ask())) for _ in range(3))
    await internal_listener(from_envoy((HANDOFF_TOKEN.encode(), spent)), body_of(), Answer().send)
    internal_listener.forget(forgotten)
    for tokens in ((), (b"guess",), (spent,), (forgotten,), (twice, b"other")):
        with pytest.raises(NoHandoffToken):
            await internal_listener(from_envoy(*((HANDOFF_TOKEN.encode(), each) for each in tokens)), body_of(), Answer().send)
    assert len(application.scopes) == 1
