"""A child process for the listener's tests: the real listener before an application that remembers what it was given.

`python canary.py CONFIG` serves with `serve()`; `daphne tests.unit.proxy.listener.canary:application` under the stock command.
Paths below `/_/` control it and are not remembered.
"""

import asyncio
import json
import os
import signal
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

from config.loader import load_options
from foundation.web.asgi_types import respond
from proxy.listener.daphne_command import install
from proxy.listener.listener_context import Lifecycle, ListenerConfig, ListenerSettings, default_settings
from proxy.listener.listeners import serve
from proxy.listener.tls.acme_state import AcmeChallenge, AcmeState

calls: list[dict] = []
ended: list[list] = []
state = {"sent": 0, "received": 0, "disconnected": 0, "refused_sends": 0}
release = asyncio.Event()


async def application(scope, receive, send):
    path = scope["raw_path"].decode()
    if path.startswith("/_/"):
        await control(path, scope, receive, send)
        return
    call = {
        "method": scope["method"],
        "path": path,
        "query": scope["query_string"].decode(),
        "scheme": scope["scheme"],
        "client": scope["client"],
        "type": scope["type"],
        "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]],
        "body": "",
    }
    calls.append(call)
    await BEHAVIOURS.get(path, echo)(call, scope, receive, send)


async def control(path, scope, receive, send):
    if path == "/_/echo":
        await echo({"body": ""}, scope, receive, send)
        return
    selector = type(asyncio.get_running_loop()._selector).__name__
    body = json.dumps({"calls": calls, "ended": ended, "selector": selector, **state}).encode()
    if path == "/_/release":
        release.set()
    elif path == "/_/reset":
        release.clear()
        calls.clear()
        ended.clear()
        state.update(dict.fromkeys(state, 0))
    await respond(send, 200, (), body)


async def chunks(receive):
    while (message := await receive())["type"] == "http.request":
        state["received"] += len(message["body"])
        yield message["body"]
        if not message["more_body"]:
            return
    raise ConnectionError("disconnected within the body")


async def echo(call, scope, receive, send):
    async for chunk in chunks(receive):
        call["body"] += chunk.decode("latin-1")
    await respond(send, 200, (), call["body"].encode("latin-1"))


async def echo_as_it_comes(call, scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    async for chunk in chunks(receive):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def early(call, scope, receive, send):
    await respond(send, 403, (), b"no")


async def hold(call, scope, receive, send):
    await release.wait()
    total = 0
    async for chunk in chunks(receive):
        total += len(chunk)
    await respond(send, 200, (), str(total).encode())


async def flood(call, scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    try:
        for _ in range(4096):
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            state["sent"] += 65536
    except ConnectionError:
        state["refused_sends"] += 1
        raise


async def wait_for_disconnect(call, scope, receive, send):
    while (await receive())["type"] != "http.disconnect":
        pass
    state["disconnected"] += 1


async def events(call, scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    await release.wait()
    for number in range(3):
        await send({"type": "http.response.body", "body": b"data: %d\n\n" % number, "more_body": True})
    await send({"type": "http.response.body"})


async def abort(call, scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    await send({"type": "gate.response.abort"})


async def fail_midway(call, scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})
    raise RuntimeError("midway")


async def fail(call, scope, receive, send):
    raise RuntimeError("at once")


async def stop_midway(call, scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})


async def too_short(call, scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
    await send({"type": "http.response.body", "body": b"half"})


async def too_long(call, scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"halfHTTP/1.1 200 OK\r\n"})


async def split_header(call, scope, receive, send):
    await respond(send, 200, [(b"location", b"/a\r\nset-cookie: _gate=forged")], b"")


async def custom_framing(call, scope, receive, send):
    await respond(send, 200, [(b"transfer-encoding", b"chunked"), (b"connection", b"x")], b"plain")


async def no_content(call, scope, receive, send):
    await respond(send, 204, (), b"")
    call["body"] = "sent"


async def not_modified(call, scope, receive, send):
    await send({"type": "http.response.start", "status": 304, "headers": []})
    await send({"type": "http.response.body", "body": b"must not be seen"})


async def never(call, scope, receive, send):
    await asyncio.sleep(3600)


async def stream_of_unknown_length(call, scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for part in (b"one ", b"two ", b""):
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"three"})


async def slow(call, scope, receive, send):
    await asyncio.sleep(0.3)
    await respond(send, 200, (), b"slow")


BEHAVIOURS = {
    "/stream-echo": echo_as_it_comes,
    "/early": early,
    "/hold": hold,
    "/flood": flood,
    "/disconnect": wait_for_disconnect,
    "/events": events,
    "/abort": abort,
    "/fail": fail,
    "/fail-midway": fail_midway,
    "/stop-midway": stop_midway,
    "/too-short": too_short,
    "/too-long": too_long,
    "/split-header": split_header,
    "/own-framing": custom_framing,
    "/no-content": no_content,
    "/not-modified": not_modified,
    "/never": never,
    "/unknown-length": stream_of_unknown_length,
    "/slow": slow,
}


def count(host, method, status, seconds, received, sent) -> None:
    ended.append([host.decode(), method.decode(), status, received, sent])
    assert 0 <= seconds < 60


class Canary(Lifecycle):
    def on_ready(self) -> None:
        print("ready", flush=True)

    async def stop(self) -> None:
        print("stopped", flush=True)

    on_request_complete = staticmethod(count)


class Silent(Lifecycle):
    """Under Daphne's command."""


install(ListenerConfig(default_settings), Silent())


class Late(ModuleType):
    """Sends its process a signal when the interpreter drops its modules: by then it has put the default handlers back."""

    send = partial(os.kill, os.getpid(), signal.SIGTERM)

    def __del__(self):
        self.send()


if __name__ == "__main__":
    if "--late-signal" in sys.argv:
        sys.modules["late"] = Late("late")
    options = load_options(Path(sys.argv[1]), {})
    obtained = AcmeState(is_enabled=options.autocert)
    if (challenge := Path(sys.argv[1]).with_name("challenge.json")).exists():
        pending = AcmeChallenge(**json.loads(challenge.read_text()))
        obtained.pending_challenge = {pending.host: pending}.get
    listener = ListenerSettings.build(options, acme=obtained)
    serve(application, options.address, ListenerConfig(lambda: listener, obtained, options.use_proxy_protocol), Canary())
