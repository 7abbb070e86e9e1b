"""Grant keeper: gives grants to Envoy, takes them back, renews their lease, and cuts the connections of whom no grant would carry."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog

from authorize.decision_log.recorder import Saw
from databroker.records import DIRECTORY_USER, SESSION, TEMPORARY_ACCESS, USER
from databroker.replica import EVERYTHING, Replica
from databroker.store.base import RecordChange
from foundation.errors import BrokerError
from foundation.tasks import spawn
from foundation.telemetry import metrics
from proxy.envoy.grants.access_log import GrantAccessLog, GrantedRequest
from proxy.envoy.grants.eligibility import Grant, grant_of, key_of, known_names
from proxy.envoy.grants.table import MOST_PORTS, GrantTable, Slot, clock
from proxy.envoy.head import EnvoyRequestHead
from proxy.envoy.resources.connections import Connections, Peer
from proxy.incoming import IncomingRequest, incoming_request
from proxy.planes.open_streams import OpenStreams
from proxy.rewriting.request_headers import RouteHeaders
from proxy.service import ProxyService
from proxy.upstreams.request import OutgoingRequest
from proxy.verdict import Carry, JudgedRequest

log = structlog.get_logger(__name__)

RENEW_EVERY = 0.25  # seconds; a quarter of the lease
# A request that was on its way into Envoy's script has written down its connection by then.
SETTLED = 0.1  # seconds
LOOK_AT_CONNECTIONS_EVERY = 5.0  # seconds
# So many grants are taken back, or judged anew, at a time; then requests are answered.
AT_ONCE = 200
# Connections that carried for one session under grants of before; with more, the judge carries.
MOST_CONNECTIONS = 512
# A grant that nobody has used for so long gives way to a new one where the table is full.
IDLE = 60.0  # seconds
_LOOKS = 8
# What browsers send; of other names the table learns as they come.
USUAL = (
    b"accept accept-encoding accept-language cache-control dnt if-match if-modified-since if-none-match if-range if-unmodified-since "
    b"keep-alive origin pragma priority purpose range referer save-data sec-ch-ua sec-ch-ua-mobile sec-ch-ua-platform sec-fetch-dest "
    b"sec-fetch-mode sec-fetch-site sec-fetch-user sec-gpc sec-purpose te upgrade-insecure-requests user-agent x-forwarded-for "
    b"x-forwarded-proto x-request-id x-requested-with x-envoy-external-address x-envoy-internal"
).split()


@dataclass(slots=True, eq=False)
class _Given:
    """Grant that was given.  `uses` are those that were told, `seen` is when it was last used."""

    slot: Slot
    digest: bytes
    session_id: str
    user_id: str
    host: str
    ends: float
    seen: float
    uses: int = 0


@dataclass(slots=True, eq=False)
class _Carrying:
    """Connections that carried for a session, under a grant that is no more."""

    session_id: str
    key: bytes
    peers: set[Peer]


@dataclass(slots=True)
class _Taken:
    """Grants that were taken back just now; of those whose access `is_over` the connections are cut, the others are judged anew."""

    over: list[_Given] = field(default_factory=list)
    changed: list[_Given] = field(default_factory=list)


class GrantKeeper:
    """Keeper of the grants of one Envoy.  All of it runs on the event loop, which is what puts grants and ends into one order.

    `service` is asked at each use, as a reload replaces it.
    """

    def __init__(
        self,
        table: GrantTable,
        connections: Connections,
        service: Callable[[], ProxyService],
        streams: OpenStreams,
        replica: Replica,
        saw: Saw,
        access_log: GrantAccessLog,
    ):
        self._table = table
        self._connections = connections
        self._service = service
        self._streams = streams
        self._replica = replica
        self._saw = saw
        self._access_log = access_log
        self._given: dict[bytes, _Given] = {}
        self._at: list[_Given | None] = [None] * table.slots
        self._by_session: dict[str, set[_Given]] = {}
        self._by_user: dict[str, set[_Given]] = {}
        self._profiles: dict[frozenset[bytes], tuple[int, set[bytes]] | None] = {}
        self._carrying: dict[str, list[_Carrying]] = {}
        self._taken = _Taken()
        self._has_taken = asyncio.Event()
        self._voided: list[_Given] = []
        self._tick = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._has_stopped = False

    def __repr__(self) -> str:
        return f"<GrantKeeper {len(self._given)} given>"

    def start(self) -> None:
        self._replica.on_change(self.on_change)
        self._tasks = [
            spawn(self._renew_forever(), name="lease of grants"),
            spawn(self._cut_forever(), name="cuts of ended access"),
            spawn(self._look_forever(), name="connections that grants carried"),
        ]

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._table.void_lease()
        self._has_stopped = True

    def consider(self, head: EnvoyRequestHead, judged: JudgedRequest, carry: Carry, outgoing: OutgoingRequest, cluster: str) -> None:
        """Give a grant, if one follows from a request that was judged, and nothing has changed since."""
        if judged.changes != self._streams.changes or not self._replica.is_following or self._voided:
            return
        service = self._service()
        key = key_of(service, head)
        if key is None:
            return
        digest = _digest(key)
        given = self._given.get(digest)
        if given is not None and clock() < given.ends and len(self._table.ports(given.slot)) < MOST_PORTS:
            self._learn(service.dataplane.state.forwarding(carry.route).headers, (name for name, _ in head.headers))
            return
        grant = grant_of(service, head, judged, carry, outgoing, cluster)
        if grant is None or self._connections_of(grant.session_id) >= MOST_CONNECTIONS:
            return
        if given is not None:
            self._take(given, is_over=False)
        told = GrantedRequest.of(judged, service.client_address(judged.incoming), outgoing.statistics)
        self._access_log.know(grant.id, told)
        self._give(grant, digest, judged.now, service.dataplane.state.forwarding(carry.route).headers)

    def on_change(self, change: RecordChange) -> None:
        """Note a change of a record; the replica calls it for each, also at its own end, which comes after the table's."""
        if self._has_stopped:
            return
        if change is EVERYTHING:
            self.void()
        elif change.type == SESSION:
            self._end(change.id, is_over=change.record is None)
        elif change.type in (USER, DIRECTORY_USER, TEMPORARY_ACCESS):
            for given in list(self._by_user.get(change.id, ())):
                self._take(given, is_over=False)
        else:  # a group: whose identity it is part of is not known here
            self.void()

    def void(self) -> None:
        """Take back all grants, because anything may have changed: nothing is carried by one from now on."""
        self._table.void_lease()
        self._voided += self._given.values()
        self._given, self._by_session, self._by_user = {}, {}, {}

    def _give(self, grant: Grant, digest: bytes, now: float, rules: RouteHeaders) -> None:
        profile = self._learn(rules, grant.names)
        if profile is None:
            return
        ends = clock() + grant.ends - now
        slot = self._table.put(grant.key, profile, ends, grant.headers)
        if slot is None:
            metrics.envoy_grants_refused.inc()
            self._make_room()
            return
        given = _Given(slot, digest, grant.session_id, grant.user_id, grant.host, ends, clock())
        self._given[digest] = self._at[slot.position] = given
        self._by_session.setdefault(grant.session_id, set()).add(given)
        self._by_user.setdefault(grant.user_id, set()).add(given)

    def _learn(self, rules: RouteHeaders, names: Iterable[bytes]) -> int | None:
        """Number of the list of headers for such a route, to which these are added; None where there are too many lists."""
        if rules.replaced not in self._profiles:
            number = self._table.add_profile()
            self._profiles[rules.replaced] = None if number is None else (number, set())
            names = (*USUAL, *names)
        if (profile := self._profiles[rules.replaced]) is None:
            return None
        number, known = profile
        for name, goes_on in known_names(rules, (name for name in names if name not in known)).items():
            if self._table.add_names(number, (b"+" if goes_on else b"-") + name + b"\n"):
                known.add(name)
        return number

    def _end(self, session_id: str, *, is_over: bool) -> None:
        for given in list(self._by_session.get(session_id, ())):
            self._take(given, is_over=is_over)
        if is_over and (carrying := self._carrying.pop(session_id, ())):
            spawn(self._cut({peer for each in carrying for peer in each.peers}), name="cut of former grants")

    def _take(self, given: _Given, *, is_over: bool) -> None:
        """Take a grant back, and look after what it carries."""
        self._withdraw(given)
        (self._taken.over if is_over else self._taken.changed).append(given)
        self._has_taken.set()

    def _withdraw(self, given: _Given) -> None:
        self._table.take_back(given.slot)
        if self._given.get(given.digest) is given:
            del self._given[given.digest]
        for by, id in ((self._by_session, given.session_id), (self._by_user, given.user_id)):
            if (others := by.get(id)) is not None:
                others.discard(given)
                if not others:
                    del by[id]

    def _remember(self, given: _Given) -> None:
        if peers := self._peers(given):
            self._carrying.setdefault(given.session_id, []).append(_Carrying(given.session_id, self._table.key(given.slot), peers))

    def _peers(self, given: _Given) -> set[Peer]:
        address = self._table.key(given.slot).partition(b"|")[0].decode()
        return {(address, port) for port in self._table.ports(given.slot)}

    def _connections_of(self, session_id: str) -> int:
        return sum(len(each.peers) for each in self._carrying.get(session_id, ()))

    def _make_room(self) -> None:
        """Retire some of the oldest that nobody uses; their slots are free for those who come later."""
        unused = clock() - IDLE
        for given in [given for given, _ in zip(self._given.values(), range(_LOOKS), strict=False)]:
            if given.seen < unused or given.ends < clock():
                self._take(given, is_over=False)
            else:  # last in line
                self._given[given.digest] = self._given.pop(given.digest)

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(RENEW_EVERY)
            if self._voided:
                await self._take_back_voided()
            self._count_uses()
            self._tick = (self._tick + 1) % 2**32
            self._table.renew(self._tick)
            metrics.envoy_grants.set(len(self._given))

    async def _take_back_voided(self) -> None:
        """The lease is over until the last of them is taken back."""
        while self._voided:
            some, self._voided = self._voided[:AT_ONCE], self._voided[AT_ONCE:]
            for given in some:
                self._table.take_back(given.slot)
            self._taken.changed += some
            self._has_taken.set()
            if self._voided:
                await asyncio.sleep(0)

    def _count_uses(self) -> None:
        now, moment = time.time(), clock()
        for position in self._table.used():
            if (given := self._at[position]) is None:
                continue
            count = self._table.count(given.slot)
            if count > given.uses:
                metrics.envoy_carried_by_grants.inc(count - given.uses)
                given.uses, given.seen = count, moment
                self._saw(given.session_id, now, given.host)

    async def _cut_forever(self) -> None:
        while True:
            await self._has_taken.wait()
            self._has_taken.clear()
            taken, self._taken = self._taken, _Taken()
            spawn(self._see_to(taken), name="cut of ended access")
            await asyncio.sleep(SETTLED / 2)  # those that end meanwhile are looked for together

    async def _see_to(self, taken: _Taken) -> None:
        await self._cut({peer for given in taken.over for peer in self._peers(given)})
        await asyncio.sleep(SETTLED)
        await self._cut({peer for given in taken.over for peer in self._peers(given)})
        for number, given in enumerate((*taken.over, *taken.changed), 1):
            if number > len(taken.over):
                self._remember(given)
            self._table.free(given.slot)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        for session_id in {given.session_id for given in taken.changed}:
            await self._judge_anew(session_id)

    async def _judge_anew(self, session_id: str) -> None:
        """Cut what is carried for a session under grants of before, unless it would still be carried whatever it is."""
        for carrying in list(self._carrying.get(session_id, ())):
            try:
                may_go_on = await self._may_go_on(carrying.key)
            except BrokerError:
                may_go_on = False
            if not may_go_on:
                await self._cut(carrying.peers)
                carrying.peers.clear()

    async def _may_go_on(self, key: bytes) -> bool:
        return await self._service().dataplane.may_go_on_whatever_it_is(self._read(key))

    def _read(self, key: bytes) -> IncomingRequest:
        """Request for which a grant was given, as far as it counts: its path may be any."""
        service = self._service()
        address, host, session, companion = key.split(b"|")
        names = service.session_cookies
        cookies = b"%b=%b; %b=%b" % (names.name.encode(), session, names.companion_name.encode(), companion)
        scope = {"type": "http", "method": "GET", "scheme": "https", "raw_path": b"/", "query_string": b"", "client": [address.decode(), 0]}
        incoming = incoming_request({**scope, "headers": [(b"host", host), (b"cookie", cookies)], "extensions": {}})
        incoming.request = service.read(incoming)
        return incoming

    async def _cut(self, peers: set[Peer]) -> None:
        if peers:
            number = await self._connections.cut(peers)
            log.info("connections of ended access were cut", connections=number)

    async def _look_forever(self) -> None:
        """Forget connections that are closed."""
        while True:
            await asyncio.sleep(LOOK_AT_CONNECTIONS_EVERY)
            if not self._carrying:
                continue
            asked = {peer for carrying in self._carrying.values() for each in carrying for peer in each.peers}
            open_ = await self._connections.live(asked)
            for session_id, carrying in list(self._carrying.items()):
                for each in carrying:
                    each.peers -= asked - open_
                if not (left := [each for each in carrying if each.peers]):
                    self._carrying.pop(session_id, None)
                else:
                    self._carrying[session_id] = left


def _digest(key: bytes) -> bytes:
    """A key is long, and every session's of a host begins alike."""
    return hashlib.blake2b(key, digest_size=16).digest()
