"""Requests that Envoy carries at this moment, by the numbers under which it tells of them; and the cuts of those whose access has ended."""

import asyncio
from collections.abc import Callable

import structlog

from foundation.tasks import spawn
from proxy.envoy.downstream_connections import DownstreamConnections
from proxy.envoy.proxied.proxied_request import CarriedRequest, EnvoysWord
from proxy.envoy.proxied.response_details import bad_status_in
from proxy.envoy.resources.internal_headers import Address
from proxy.responses.renderer import CapturedResponse

log = structlog.get_logger(__name__)

_FIELDS = 8
_UNSAID = "-"
# As long may a question wait here of whose request Envoy has said that it is over: longer than Envoy waits for an answer.
_ASKED_LATE = 30.0  # seconds
# What Envoy wrote before it ended is read by then.
LAST_WORDS = 0.1  # seconds
_UNASKED = 101
# As long has the answer to a client, whose connection can't be used any more, to go out.
_GONE_BY_THEN = 1.0  # seconds


class CarriedRequests:
    def __init__(self, connections: DownstreamConnections, clock: Callable[[], float]):
        self._connections = connections
        self._clock = clock
        self._over: dict[str, float] = {}  # before gate had answered, and when
        self._carried: dict[str, CarriedRequest] = {}
        self._replaceable: dict[bytes, CarriedRequest] = {}  # whose upstream another one may stand in for, by the request's id
        self._peers: set[Address] = set()
        self.is_idle = asyncio.Event()  # while Envoy carries nothing to upstreams
        self.is_idle.set()

    def __repr__(self) -> str:
        return f"<CarriedRequests {len(self._carried)} under way>"

    @property
    def can_end(self) -> bool:
        """Whether what Envoy forwards can be ended: else it is to forward nothing."""
        return self._connections.can_reset

    def begin(self, carried: CarriedRequest) -> None:
        """Begin one, before Envoy is told of it."""
        carried.begin(self._cut)
        self._carried[carried.number] = carried
        if carried.is_replaceable:
            self._replaceable[carried.id] = carried
        self.is_idle.clear()
        if self._over.pop(carried.number, None) is not None:
            self.end(carried.number, EnvoysWord(0, 0.0, 0, 0, "DC", _UNSAID))

    def end(self, number: str, word: EnvoysWord | None) -> None:
        if (carried := self._carried.pop(number, None)) is not None:
            self._replaceable.pop(carried.id, None)
            carried.tell(word)
            if not self._carried:
                self.is_idle.set()

    def tell(self, line: str) -> None:
        """Tell of the end of one, by a line of Envoy's access log (judge_filter.py)."""
        parts = line.split(" ", _FIELDS - 1)
        if len(parts) != _FIELDS or not all(part.isdecimal() for part in parts[2:6]):
            log.warning("unparsable envoy access log line", line=line[:200])
            return
        answered, asked, status, milliseconds, sent, received, flags, details = parts
        number = asked if answered == _UNSAID else answered
        if answered == _UNSAID and number not in self._carried:
            self._note_over(number)
        self.end(number, EnvoysWord(int(status), int(milliseconds) / 1000, int(sent), int(received), flags, details))

    def tell_upload(self, line: str) -> None:
        """Tell of what has come of a body, by a line of Envoy's access log (judge_filter.py)."""
        number, received, ended = line.split(" ")
        if (carried := self._carried.get(number)) is not None:
            carried.has_received(int(received), is_all=ended != _UNSAID)

    def _note_over(self, number: str) -> None:
        """Note the end of one that Envoy has not heard of: its client left, or gate was late.  The question may still be waiting here."""
        now = self._clock()
        for other, since in list(self._over.items()):
            if now - since < _ASKED_LATE:
                break
            del self._over[other]
        self._over[number] = now

    async def instead(self, number: str, details: str) -> CapturedResponse | None:
        """Page in place of an answer; None where nothing is known of the request."""
        if (carried := self._carried.get(number)) is None:
            return None
        if bad_status_in(details) == _UNASKED:  # the upstream's side of it never ends
            asyncio.get_running_loop().call_later(_GONE_BY_THEN, carried.hang_up)
        return await carried.instead(details)

    def clusters(self) -> set[str]:
        """Names of the clusters that they go to; one with a body may go there much later than it was judged."""
        return {carried.cluster for carried in self._carried.values()}

    def unconnected(self, id: bytes) -> CarriedRequest | None:
        """Request that Envoy could not connect to its upstream, once; None for any other."""
        return self._replaceable.pop(id, None)

    def is_no_stream(self, number: str) -> None:
        if (carried := self._carried.get(number)) is not None:
            carried.is_no_stream()

    def envoy_has_ended(self) -> None:
        """End all that an Envoy carried that is no more, once its last words are read."""
        asyncio.get_running_loop().call_later(LAST_WORDS, self.end_all, list(self._carried))

    def end_all(self, numbers: list[str] | None = None) -> None:
        for number in list(self._carried) if numbers is None else numbers:
            self.end(number, None)

    def _cut(self, peer: Address) -> None:
        if not self._peers:
            spawn(self._cut_soon(), name="cut of ended access")
        self._peers.add(peer)

    async def _cut_soon(self) -> None:
        """Those that end together are cut together."""
        await asyncio.sleep(0)
        peers, self._peers = self._peers, set()
        log.info("connections reset after access ended", connections=await self._connections.reset(peers))
