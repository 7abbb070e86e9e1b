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
LONGEST = 500  # characters of one message
PING_EVERY = 30.0  # seconds


@dataclass(slots=True)
class Room:
    """`said` is what newcomers see of what was said before."""

    people: dict[web.WebSocketResponse, dict[str, str]] = field(default_factory=dict)
    said: collections.deque[dict[str, Any]] = field(default_factory=lambda: collections.deque(maxlen=REMEMBERED))

    async def visit(self, request: web.Request, verdict: Verdict) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(heartbeat=PING_EVERY, max_msg_size=16 * 1024)
        await socket.prepare(request)
        self.people[socket] = person_in(verdict)
        try:
            await socket.send_json({"type": "welcome", "you": self.people[socket], "said": list(self.said)})
            await self._tell_who_is_here()
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    await self._say(self.people[socket], message.data)
        finally:
            del self.people[socket]
            await self._tell_who_is_here()
        return socket

    async def close(self) -> None:
        for socket in list(self.people):
            await socket.close(code=1001)

    async def _say(self, person: dict[str, str], text: str) -> None:
        if text := text.strip()[:LONGEST]:
            entry = {"type": "message", "person": person, "text": text, "at": int(time.time())}
            self.said.append(entry)
            await self._tell(entry)

    async def _tell_who_is_here(self) -> None:
        here = {person["email"]: person for person in self.people.values()}
        await self._tell({"type": "here", "people": sorted(here.values(), key=lambda person: person["name"])})

    async def _tell(self, entry: dict[str, Any]) -> None:
        text = json.dumps(entry)
        for socket in list(self.people):
            with contextlib.suppress(ConnectionError):
                await socket.send_str(text)


def person_in(verdict: Verdict) -> dict[str, str]:
    email = str(verdict.claims.get("email") or verdict.claims.get("sub") or "somebody")
    return {"name": str(verdict.claims.get("name") or email.partition("@")[0].capitalize()), "email": email}
