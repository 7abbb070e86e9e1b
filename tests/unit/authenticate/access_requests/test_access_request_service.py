"""Access requests: approvals, self-approval, revocation, break-glass, linked accounts and auditing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from authenticate.access_requests.access_request_service import (
    AccessActor,
    AccessRequestService,
    NotPermitted,
    RequestNotFound,
    format_duration,
)
from authenticate.access_requests.access_webhook import AccessEvent
from authorize.policy.identity import Identity
from config.options import Options
from databroker.audit_log import Actor, ActorKind, AuditAction, AuditLog, AuditLogUnavailable
from databroker.grants.access_request_store import (
    APPROVED,
    CLOSED,
    LIFETIME_SECONDS,
    MAX_PENDING,
    RequestQuotaExceeded,
    StoredAccessRequest,
)
from databroker.grants.grant_store import AccessError, GrantStore
from databroker.records import ACCESS_GRANT, ACCESS_REQUEST, Record, SessionRecord
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.options import MINIMAL, make_options

NOW = 1_800_000_000.0
HOUR = 3600.0
ISSUER = MINIMAL["idp_provider_url"]
KEYS: dict[str, Any] = {"approvers": [{"groups": "leads"}], "max_duration": "2h"}
WAGES = {"from": "https://wages.example.com", "to": "http://127.0.0.1:9", "name": "wages", "allowed_groups": ["payroll"]}


@dataclass(frozen=True)
class AuditLogRecorder(AuditLog):
    """Audit log of a world with one actor; `then` runs after each entry."""

    world: Any = None
    then: Callable[[str], Awaitable[None]] | None = None

    async def record(self, action: str, model: Any, objects: Any) -> None:
        if self.world.is_full:
            raise AuditLogUnavailable("full")
        self.world.audited.append((self.actor.name, action))
        await asyncio.sleep(0)
        if self.then is not None:
            await self.then(action)


class World:
    """Access request service with users.  `is_full` makes the audit log fail; `groups` are each session's current groups."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.now = NOW
        self.broker = MemoryStore(lambda: self.now)
        self.groups = {"bob": {"leads"}, "carol": {"leads"}, "dave": {"leads"}}
        self.emails = dict[str, str]()
        self.unverified_emails = dict[str, str]()
        self.linked = dict[str, str]()
        self.gone = set[str]()
        self.audited: list[tuple[str, str]] = []
        self.is_full = False
        self.events: list[AccessEvent] = []
        self.use()

    def use(self, **keys: Any) -> None:
        route = {**WAGES, "access_requests": {**KEYS, **keys.pop("keys", {})}, **keys}
        self.options: Options = make_options(self.directory, policy=[route])
        self.desk = AccessRequestService(self.options, self.broker, lambda: self.now, self.events.append)

    def caller(
        self, name: str, issuer: str = ISSUER, session: str = "", then: Callable[[str], Awaitable[None]] | None = None
    ) -> AccessActor:
        id = session or name
        held = SessionRecord(id, f"oidc/{name}", name, "oidc", NOW, NOW + 9e5, {"email": self.unverified_emails.get(name)}, issuer=issuer)
        audit = AuditLogRecorder(Actor(ActorKind.USER, held.user_id, name), "", world=self, then=then)
        return AccessActor(held, self.identity(name, id), name, audit)

    def identity(self, name: str, session: str = "") -> Identity:
        groups = frozenset(self.groups.get(name, ()))
        known = {"verified_email": self.emails.get(name, ""), "linked_id": self.linked.get(name, "")}
        return Identity(session or name, f"oidc/{name}", name, "oidc", NOW + 9e5, group_ids=groups, **known)

    async def identities(self, session_id: str) -> Identity | None:
        await asyncio.sleep(0)
        return None if session_id in self.gone else self.identity(session_id.partition("-")[0], session_id)

    async def ask(self, name: str = "ann", why: str = "the year's end", seconds: float = HOUR) -> StoredAccessRequest:
        known = {held.request.request_id for held in await self.desk.list_for(self.caller(name))}
        await self.desk.create(self.caller(name), self.desk.rules.routes[0], why, seconds)
        return next(held for held in await self.desk.list_for(self.caller(name)) if held.request.request_id not in known)

    async def approve(self, held: StoredAccessRequest, name: str = "bob", session: str = "") -> Any:
        return await self.desk.approve(self.caller(name, session=session), held.id, held.request.request_id, self.identities)

    async def granted(self) -> list[tuple[str, float, str]]:
        accesses = GrantStore(self.broker, lambda: self.now)
        return [(record.user_id, access.expires_at - NOW, access.granted_by) async for record, access in accesses.iter_grants()]

    async def waiting(self, name: str) -> list[str]:
        return [held.request.display_name async for held in self.desk.pending_for(self.caller(name))]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_a_request_is_answered_by_an_approver_and_the_access_ends_by_itself(world: World) -> None:
    held = await world.ask()
    assert (await world.waiting("bob"), await world.waiting("ann"), await world.waiting("eve")) == (["ann"], [], [])
    world.now += 600
    await world.approve(held)
    assert await world.granted() == [("oidc/ann", 600 + HOUR, "bob")]
    assert await world.desk.list_for(world.caller("ann")) == []
    assert world.audited == [
        ("ann", "requests access"),
        ("bob", "approves an access request"),
        ("bob", "grants temporary access"),
    ]
    world.now += HOUR
    assert await world.granted() == []


async def test_requester_cannot_approve(world: World) -> None:
    held = await world.ask("bob")
    for caller in (world.caller("bob"), world.caller("bob", session="bob-2"), world.caller("bob", issuer="https://other.example.com")):
        with pytest.raises(NotPermitted):
            await world.desk.approve(caller, held.id, held.request.request_id, world.identities)
    assert await world.waiting("bob") == []
    assert await world.granted() == []
    await world.approve(held, "carol")
    assert [user for user, _, _ in await world.granted()] == ["oidc/bob"]


async def test_former_approver_cannot_decide(world: World) -> None:
    held = await world.ask()
    world.groups["bob"] = set()
    for step in (world.approve(held), world.desk.deny(world.caller("bob"), held.id, held.request.request_id)):
        with pytest.raises(NotPermitted):
            await step
    assert (await world.granted(), world.audited[1:]) == ([], [])


async def test_approvals_are_of_different_current_approvers(world: World) -> None:
    world.use(keys={"approvals": 2})
    held = await world.ask()
    await world.approve(held)
    await world.approve(held, session="bob-2")
    assert await world.granted() == []
    world.groups["bob"] = set()  # the first approver has lost the group
    await world.approve(held, "carol")
    assert await world.granted() == []
    world.gone.add("carol")  # and the second has signed out
    await world.approve(held, "dave")
    assert await world.granted() == []
    world.gone.clear()
    await world.approve(held, "carol")
    ((user, _, by),) = await world.granted()
    assert (user, by) == ("oidc/ann", "dave, carol")


@pytest.mark.parametrize("approvals", [1, 2])
async def test_concurrent_approvals_create_one_grant(world: World, approvals: int) -> None:
    world.use(keys={"approvals": approvals})
    held = await world.ask()
    outcomes = await asyncio.gather(world.approve(held), world.approve(held, "carol"), return_exceptions=True)
    assert not [each for each in outcomes if isinstance(each, BaseException) and not isinstance(each, RequestNotFound)]
    assert len(await world.granted()) == 1
    assert await world.desk.list_for(world.caller("ann")) == []


async def test_of_a_yes_and_a_no_at_once_one_counts(world: World) -> None:
    held = await world.ask()
    refuse = world.desk.deny(world.caller("carol"), held.id, held.request.request_id)
    outcomes = await asyncio.gather(refuse, world.approve(held), return_exceptions=True)
    assert sum(isinstance(each, RequestNotFound) for each in outcomes) == 1
    assert bool(await world.granted()) is not isinstance(outcomes[1], RequestNotFound)


@pytest.mark.parametrize("end", ["refused", "withdrawn", "the broker is away"])
async def test_an_approval_that_does_not_count_is_in_the_audit_log_as_failed(world: World, end: str) -> None:
    world.use(keys={"approvals": 2})
    held = await world.ask()
    await world.approve(held, "dave")
    earlier = len(world.audited)

    async def decide_concurrently(session_id: str) -> Identity | None:
        match end:
            case "refused":
                await world.desk.deny(world.caller("carol"), held.id, held.request.request_id)
            case "withdrawn":
                await world.desk.withdraw(world.caller("ann"), held.id, held.request.request_id)
            case _:
                raise BrokerError("away")
        return await world.identities(session_id)

    with pytest.raises((RequestNotFound, BrokerError)):
        await world.desk.approve(world.caller("bob"), held.id, held.request.request_id, decide_concurrently)
    assert [action for name, action in world.audited[earlier:] if name == "bob"] == [
        AuditAction.APPROVE_REQUEST,
        AuditAction.APPROVE_REQUEST.failure,
    ]
    assert await world.granted() == []


async def test_an_end_between_an_approval_and_its_access_prevents_it(world: World) -> None:
    first, second = await world.ask(), await world.ask(why="longer", seconds=2 * HOUR)
    await world.approve(first)
    ((user_id, place),) = [
        (record.user_id, access.route_hash) async for record, access in world.desk.grants_visible_to(world.caller("bob"))
    ]

    async def then(action: str) -> None:
        if action == AuditAction.GRANT_ACCESS:
            await world.desk.revoke(world.caller("bob"), user_id, place)

    with pytest.raises(AccessError):
        await world.desk.approve(world.caller("carol", then=then), second.id, second.request.request_id, world.identities)
    assert await world.granted() == []
    assert world.audited[-3:] == [
        ("carol", AuditAction.GRANT_ACCESS),
        ("bob", AuditAction.REVOKE_ACCESS),
        ("carol", AuditAction.GRANT_ACCESS.failure),
    ]


async def test_access_that_was_ended_early_is_restored_by_no_request_that_waited(world: World) -> None:
    first, second = await world.ask(), await world.ask(why="once more")
    await world.approve(first)
    ((user_id, access_id),) = [(record.user_id, access.id) async for record, access in world.desk.grants_visible_to(world.caller("bob"))]
    await world.desk.revoke(world.caller("bob"), user_id, access_id)
    assert await world.desk.list_for(world.caller("ann")) == []
    with pytest.raises(RequestNotFound):
        await world.approve(second, "carol")
    assert await world.granted() == []
    world.now += 1
    await world.approve(await world.ask(why="after it"), "carol")
    assert len(await world.granted()) == 1


async def test_glass_that_is_broken_again_does_not_keep_approvers_from_ending_it(world: World) -> None:
    world.use(keys={"break_glass": {"allowed": [{"groups": "oncall"}], "max_duration": "1h"}})
    world.groups["ann"] = {"oncall"}
    route = world.desk.rules.routes[0]

    async def breaks() -> None:
        world.now += 1
        await world.desk.break_glass(world.caller("ann"), route, "an incident", 600)

    async def then(action: str) -> None:
        await breaks()  # between the entry and the end

    await breaks()
    ((user_id, place),) = [
        (record.user_id, access.route_hash) async for record, access in world.desk.grants_visible_to(world.caller("bob"))
    ]
    await breaks()
    await world.desk.revoke(world.caller("bob", then=then), user_id, place)
    assert await world.granted() == []


async def test_failed_revocation_is_audited(world: World) -> None:
    await world.approve(await world.ask())
    ((user_id, place),) = [
        (record.user_id, access.route_hash) async for record, access in world.desk.grants_visible_to(world.caller("bob"))
    ]

    async def then(action: str) -> None:
        if action == AuditAction.REVOKE_ACCESS:
            await world.desk.revoke(world.caller("carol"), user_id, place)

    events = len(world.events)
    with pytest.raises(RequestNotFound):
        await world.desk.revoke(world.caller("bob", then=then), user_id, place)
    assert world.audited[-3:] == [
        ("bob", AuditAction.REVOKE_ACCESS),
        ("carol", AuditAction.REVOKE_ACCESS),
        ("bob", AuditAction.REVOKE_ACCESS.failure),
    ]
    assert [each.actor for each in world.events[events:]] == ["carol"]


async def test_refused_or_withdrawn_request_cannot_be_approved(world: World) -> None:
    refused, withdrawn = await world.ask(), await world.ask(why="another")
    await world.desk.deny(world.caller("bob"), refused.id, refused.request.request_id)
    with pytest.raises(RequestNotFound):
        await world.desk.withdraw(world.caller("bob"), withdrawn.id, withdrawn.request.request_id)
    await world.desk.withdraw(world.caller("ann"), withdrawn.id, withdrawn.request.request_id)
    await world.ask(why="a third, at the same place")
    for held in (refused, withdrawn):
        with pytest.raises(RequestNotFound):
            await world.approve(held)
    assert await world.granted() == []


async def test_a_request_expires_by_itself(world: World) -> None:
    held = await world.ask()
    world.now += LIFETIME_SECONDS
    with pytest.raises(RequestNotFound):
        await world.approve(held)
    assert await world.granted() == []


@pytest.mark.parametrize(
    "change", [{"name": "payroll"}, {"to": "http://127.0.0.1:10"}, {"from": "https://pay.example.com"}, {"prefix_rewrite": "/payroll/"}]
)
async def test_a_route_that_was_changed_takes_no_request_over(world: World, change: dict[str, str]) -> None:
    held = await world.ask()
    world.use(**change)
    with pytest.raises(RequestNotFound):
        await world.approve(held)
    assert await world.waiting("bob") == []
    assert await world.granted() == []


async def test_shorter_rule_applies_to_earlier_requests(world: World) -> None:
    held = await world.ask(seconds=2 * HOUR)
    world.use(keys={"max_duration": "10m"})
    await world.approve(held)
    assert [lasts for _, lasts, _ in await world.granted()] == [600]


async def test_a_user_of_a_provider_that_the_route_does_not_accept_requests_nothing(world: World) -> None:
    world.use(identity_providers=["oidc"])
    ann, route = world.caller("ann"), world.desk.rules.routes[0]
    partner = replace(ann, identity=replace(ann.identity, provider="partner"))
    with pytest.raises(NotPermitted):
        await world.desk.create(partner, route, "the year's end", HOUR)
    assert (world.audited, await world.desk.list_for(ann)) == ([], [])
    await world.desk.create(ann, route, "the year's end", HOUR)
    assert await world.waiting("bob") == ["ann"]


@pytest.mark.parametrize("seconds", [0, -1, 2 * HOUR + 1, float("inf"), float("nan")])
async def test_refuses_duration_beyond_the_rule(world: World, seconds: float) -> None:
    with pytest.raises(AccessError):
        await world.ask(seconds=seconds)
    assert world.audited == []


@pytest.mark.parametrize("why", ["", "  ", "a\u202eb", "x" * 501])
async def test_a_reason_that_is_required_is_there(world: World, why: str) -> None:
    with pytest.raises(AccessError, match="give a reason"):
        await world.ask(why=why)
    world.use(keys={"reason": "optional"})
    if why.strip():
        with pytest.raises(AccessError, match="give a reason"):
            await world.ask(why=why)
    else:
        assert (await world.ask(why=why)).request.reason == "no reason given"


async def test_a_flood_ends_at_so_many(world: World) -> None:
    for _ in range(MAX_PENDING):
        await world.ask()
    with pytest.raises(RequestQuotaExceeded):
        await world.ask()
    assert len(await world.desk.list_for(world.caller("ann"))) == MAX_PENDING
    assert world.audited == [("ann", "requests access")] * MAX_PENDING, "nor does it fill the audit log"
    assert len(world.events) == MAX_PENDING
    await world.ask("eve")


@pytest.mark.parametrize(
    ("verified", "unverified"),
    [
        ({"bob": "bob@corp.com", "dave": "bob@corp.com"}, {}),
        ({"bob": "bob@corp.com"}, {"dave": "Bob@CORP.com"}),
        ({}, dict.fromkeys(("bob", "dave"), "b@c.de")),
    ],
    ids=["verified", "one of them is", "neither is"],
)
async def test_accounts_with_one_address_are_one_user(world: World, verified: dict[str, str], unverified: dict[str, str]) -> None:
    world.use(keys={"approvals": 2})
    world.emails, world.unverified_emails = {**verified, "carol": "carol@corp.com"}, unverified
    held = await world.ask("bob")
    with pytest.raises(NotPermitted):
        await world.approve(held, "dave")
    assert await world.waiting("dave") == []
    other = await world.ask("ann")
    await world.approve(other)
    await world.approve(other, "dave")
    assert await world.granted() == []
    await world.approve(other, "carol")
    assert await world.granted() == [("oidc/ann", HOUR, "dave, carol")]


async def test_user_and_account_with_known_secret_are_one_approver(world: World) -> None:
    world.use(keys={"approvals": 2})
    held = await world.ask()
    program = replace(world.caller("carol"), secret_viewers=("oidc/bob",))
    for caller in (program, world.caller("bob"), program):
        await world.desk.approve(caller, held.id, held.request.request_id, world.identities)
    assert await world.granted() == []
    await world.approve(held, "dave")
    assert await world.granted() == [("oidc/ann", HOUR, "carol, dave")]


async def test_revoked_grant_is_not_created_again(world: World) -> None:
    held, put = await world.ask(), world.broker.put

    async def fails(type: str, id: str, data: Any, **more: Any) -> Record:
        if type == ACCESS_REQUEST and data["state"] == CLOSED:
            raise BrokerError("away")
        return await put(type, id, data, **more)

    world.broker.put = fails  # type: ignore[method-assign]
    with pytest.raises(BrokerError):
        await world.approve(held)
    world.broker.put = put  # type: ignore[method-assign]
    ((id,),) = [(access.id,) async for _, access in world.desk.grants_visible_to(world.caller("ann"))]
    await world.desk.revoke(world.caller("ann"), "oidc/ann", id)
    with pytest.raises(RequestNotFound):
        await world.approve(held, "carol")
    assert (await world.granted(), await world.desk.list_for(world.caller("ann"))) == ([], [])


async def test_without_the_audit_log_nothing_is_done(world: World) -> None:
    held = await world.ask()
    world.is_full = True
    steps: list[Callable[[], Any]] = [
        lambda: world.ask(),
        lambda: world.approve(held),
        lambda: world.desk.deny(world.caller("bob"), held.id, held.request.request_id),
        lambda: world.desk.withdraw(world.caller("ann"), held.id, held.request.request_id),
    ]
    for step in steps:
        with pytest.raises(AuditLogUnavailable):
            await step()
    assert [each.request for each in await world.desk.list_for(world.caller("ann"))] == [held.request]
    assert await world.granted() == []


async def test_where_the_broker_fails_halfway_another_try_finishes_it(world: World) -> None:
    held, put = await world.ask(), world.broker.put

    async def fails(type: str, *arguments: Any, **more: Any) -> Record:
        if type == ACCESS_GRANT:
            raise BrokerError("away")
        return await put(type, *arguments, **more)

    world.broker.put = fails  # type: ignore[method-assign]
    with pytest.raises(BrokerError):
        await world.approve(held)
    assert world.audited[-1] == ("bob", AuditAction.GRANT_ACCESS.failure)
    (left,) = await world.desk.list_for(world.caller("ann"))
    assert left.request.state == APPROVED
    with pytest.raises(RequestNotFound):
        await world.desk.deny(world.caller("carol"), held.id, held.request.request_id)
    world.broker.put = put  # type: ignore[method-assign]
    world.now += 60
    await world.approve(held, "carol")
    assert await world.granted() == [("oidc/ann", HOUR, "bob")], "its time began with the first"
    assert await world.desk.list_for(world.caller("ann")) == []


async def test_request_that_cannot_be_granted_is_closed(world: World) -> None:
    held = await world.ask()
    await world.broker.put(ACCESS_REQUEST, held.id, replace(held.request, state=APPROVED, grant_expires_at=NOW - 1).to_data())
    with pytest.raises(AccessError):
        await world.approve(held)
    assert await world.desk.list_for(world.caller("ann")) == []


async def test_holder_and_approvers_revoke(world: World) -> None:
    for name in ("ann", "ben"):
        await world.approve(await world.ask(name))
    found = {record.user_id: access.id async for record, access in world.desk.grants_visible_to(world.caller("bob"))}
    assert set(found) == {"oidc/ann", "oidc/ben"}
    assert [record.user_id async for record, _ in world.desk.grants_visible_to(world.caller("ann"))] == ["oidc/ann"]
    with pytest.raises(RequestNotFound):
        await world.desk.revoke(world.caller("ann"), "oidc/ben", found["oidc/ben"])
    with pytest.raises(RequestNotFound):
        await world.desk.revoke(world.caller("ann", issuer="https://other.example.com"), "oidc/ann", found["oidc/ann"])
    await world.desk.revoke(world.caller("ann"), "oidc/ann", found["oidc/ann"])
    await world.desk.revoke(world.caller("carol"), "oidc/ben", found["oidc/ben"])
    assert await world.granted() == []
    assert world.audited[-2:] == [("ann", "revokes temporary access"), ("carol", "revokes temporary access")]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(900, "15 minutes"), (3600, "1 hour"), (5400, "1 hour 30 minutes"), (86400, "1 day"), (1, "1 minute"), (90000, "1 day 1 hour")],
)
def test_formats_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


GLASS = {"break_glass": {"allowed": [{"groups": "on-call"}], "max_duration": "30m"}}


async def test_break_glass_grants_and_warns(world: World) -> None:
    world.use(keys=GLASS)
    world.groups["olga"] = {"on-call"}
    caller, route = world.caller("olga"), world.desk.rules.routes[0]
    with capture_logs() as logs:
        await world.desk.break_glass(caller, route, "the site is down", 1800)
    assert [(each["log_level"], each["user_id"]) for each in logs] == [("warning", "oidc/olga")]
    assert await world.granted() == [("oidc/olga", 1800, "olga (break-glass)")]
    assert world.audited == [("olga", "uses break-glass access")]
    with pytest.raises(AccessError, match="already"):
        await world.desk.break_glass(caller, route, "again", 600)
    assert world.audited[-1] == ("olga", AuditAction.BREAK_GLASS.failure)


async def test_break_glass_limits(world: World) -> None:
    route = world.desk.rules.routes[0]
    with pytest.raises(NotPermitted):
        await world.desk.break_glass(world.caller("bob"), route, "it is late", 600)
    world.use(keys=GLASS)
    world.groups["olga"] = {"on-call"}
    route = world.desk.rules.routes[0]
    for name in ("ann", "bob"):
        with pytest.raises(NotPermitted):
            await world.desk.break_glass(world.caller(name), route, "it is late", 600)
    for why, seconds in (("", 600.0), ("down", 1801.0), ("down", 0.0), ("down", float("nan"))):
        with pytest.raises(AccessError):
            await world.desk.break_glass(world.caller("olga"), route, why, seconds)
    assert world.audited == []
    world.is_full = True
    with pytest.raises(AuditLogUnavailable):
        await world.desk.break_glass(world.caller("olga"), route, "down", 600)
    assert await world.granted() == []
    assert await world.waiting("olga") == [], "who may break the glass is no approver by that"


async def test_sends_an_event_for_each_step(world: World) -> None:
    world.use(keys={**GLASS, "approvals": 2})
    world.groups["olga"] = {"on-call"}
    held = await world.ask()
    await world.approve(held)
    await world.approve(held, "carol")
    refused = await world.ask("ben")
    await world.desk.deny(world.caller("bob"), refused.id, refused.request.request_id)
    withdrawn = await world.ask("ben")
    await world.desk.withdraw(world.caller("ben"), withdrawn.id, withdrawn.request.request_id)
    await world.desk.break_glass(world.caller("olga"), world.desk.rules.routes[0], "the site is down", 600)
    ((id, _),) = [(access.id, 0) async for _, access in world.desk.grants_visible_to(world.caller("ann"))]
    await world.desk.revoke(world.caller("bob"), "oidc/ann", id)
    expected = ["requested", "approved", "granted", "requested", "denied", "requested", "withdrawn", "break_glass_used", "revoked"]
    assert [event.event for event in world.events] == expected
    approved, broken = world.events[2], world.events[7]
    assert (approved.requester, approved.actor, approved.expires_at) == ("ann", "carol", NOW + HOUR)
    assert approved.text == "bob, carol granted access: ann, wages, for 1 hour: the year's end"
    assert broken.text == "EMERGENCY: olga used break-glass access to wages for 10 minutes: the site is down"
    event_count = len(world.events)
    with pytest.raises(NotPermitted):
        await world.approve(await world.ask(), "eve")
    assert len(world.events) == event_count + 1, "no event without a change"


ANN = "verified_email/ann@corp.example"


async def test_linked_accounts_cannot_decide_own_request(world: World) -> None:
    """`carol` is an approver's account of hers; that she is known by the same id is enough."""
    world.linked = {"ann": ANN, "carol": ANN}
    held = await world.ask("ann")
    assert (held.request.user_id, held.request.issuer) == (ANN, "verified_email")
    assert await world.waiting("carol") == []
    with pytest.raises(NotPermitted):
        await world.approve(held, "carol")
    with pytest.raises(NotPermitted):
        await world.desk.deny(world.caller("carol"), held.id, held.request.request_id)
    assert [each.request.request_id for each in await world.desk.list_for(world.caller("carol"))] == [held.request.request_id]
    assert (await world.approve(held, "bob")).state == APPROVED
    assert await world.granted() == [(ANN, HOUR, "bob")]
    ((record, access),) = [each async for each in world.desk.grants_visible_to(world.caller("carol"))]
    await world.desk.revoke(world.caller("carol", issuer="https://idp.other.example"), record.user_id, access.id)
    assert await world.granted() == []


async def test_two_linked_accounts_are_not_two_approvers(world: World) -> None:
    world.use(keys={"approvals": 2})
    world.linked = {"bob": ANN, "carol": ANN}
    held = await world.ask("ann")
    await world.approve(held, "bob")
    assert (await world.approve(held, "carol")).state != APPROVED
    assert (await world.approve(held, "dave")).state == APPROVED


async def test_approval_of_a_reassigned_account_is_ignored(world: World) -> None:
    world.use(keys={"approvals": 2})
    world.linked = {"bob": ANN}
    held = await world.ask("ann")
    await world.approve(held, "bob")
    world.linked = {"bob": "verified_email/somebody@corp.example"}
    assert (await world.approve(held, "dave")).state != APPROVED


async def test_break_glass_applies_to_linked_accounts(world: World) -> None:
    world.use(keys={"break_glass": {"allowed": [{"groups": "leads"}], "max_duration": "1h"}})
    world.linked = {"bob": ANN}
    await world.desk.break_glass(world.caller("bob"), world.desk.rules.routes[0], "the house burns", HOUR)
    assert [user_id for user_id, _, _ in await world.granted()] == [ANN]


@pytest.mark.parametrize(("before", "after"), [(ANN, ""), ("", ANN), (ANN, "verified_email/other@corp.example")])
async def test_reassigned_account_cannot_decide_its_request(world: World, before: str, after: str) -> None:
    """Otherwise a user with a changeable address could request as one user and approve as another."""
    world.linked = {"bob": before}
    held = await world.ask("bob")
    world.linked = {"bob": after}
    assert await world.waiting("bob") == []
    with pytest.raises(NotPermitted):
        await world.approve(held, "bob")


async def test_reassigned_account_is_no_second_approver(world: World) -> None:
    world.use(keys={"approvals": 2})
    held = await world.ask("ann")
    await world.approve(held, "bob", session="bob-1")
    world.linked = {"bob": ANN}
    assert (await world.approve(held, "bob", session="bob-2")).state != APPROVED
