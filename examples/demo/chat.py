"""Chat room of the demo. Names come from gate's assertion, so a sender cannot choose one."""

import collections
import contextlib
import json
import time
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from examples.demo.assertion import Verdict

REMEMBERED = 50
MAX_CHARACTERS = 500  # characters of one message
PING_EVERY = 30.0  # seconds


@dataclass(slots=True)
class Room:
    """`said` is what newcomers see of what was said before."""

    users: dict[web.WebSocketResponse, dict[str, str]] = field(default_factory=dict)
    messages: collections.deque[dict[str, Any]] = field(default_factory=lambda: collections.deque(maxlen=REMEMBERED))

    async def visit(self, request: web.Request, verdict: Verdict) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(heartbeat=PING_EVERY, max_msg_size=16 * 1024)
        await socket.prepare(request)
        self.users[socket] = parse_user(verdict)
        try:
            await socket.send_json({"type": "welcome", "you": self.users[socket], "said": list(self.messages)})
            await self._send_presence()
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    await self._post(self.users[socket], message.data)
        finally:
            del self.users[socket]
            await self._send_presence()
        return socket

    async def close(self) -> None:
        for socket in list(self.users):
            await socket.close(code=1001)

    async def _post(self, user: dict[str, str], text: str) -> None:
        if text := text.strip()[:MAX_CHARACTERS]:
            entry = {"type": "message", "person": user, "text": text, "at": int(time.time())}
            self.messages.append(entry)
            await self._broadcast(entry)

    async def _send_presence(self) -> None:
        here = {user["email"]: user for user in self.users.values()}
        await self._broadcast({"type": "here", "people": sorted(here.values(), key=lambda user: user["name"])})

    async def _broadcast(self, entry: dict[str, Any]) -> None:
        text = json.dumps(entry)
        for socket in list(self.users):
            with contextlib.suppress(ConnectionError):
                await socket.send_str(text)


def parse_user(verdict: Verdict) -> dict[str, str]:
    email = str(verdict.claims.get("email") or verdict.claims.get("sub") or "somebody")
    return {"name": str(verdict.claims.get("name") or email.partition("@")[0].capitalize()), "email": email}
