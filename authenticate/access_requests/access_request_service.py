"""Access desk: where people ask for access for a while, and approvers answer.  Each step is in the audit log before it takes effect."""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import reduce

import structlog

from authenticate.access_requests.access_webhook import BREAK_GLASS_USED, AccessEvent
from authorize.approval_policy import ApprovalPolicy, may_request
from authorize.identity.identity_builder import grant_subject
from authorize.identity.service_account_loader import load_account_identity
from authorize.policy.compiled_route import route_name
from authorize.policy.identity import Identity
from authorize.route_settings import RouteLinks
from config.options import Options
from config.routes.route import Route
from config.routes.route_access_requests import REQUIRED
from config.settings.provider_entry import SERVICE_ACCOUNT as PROVIDER
from databroker.audit_log import AuditAction, AuditLog
from databroker.broker_client import BrokerClient
from databroker.grants.grant_records import AccessHolder, TemporaryAccess, TemporaryAccessRecord
from databroker.grants.grant_store import TRIES, AccessBusy, AccessError, TemporaryAccesses, checked_why
from databroker.grants.request_store import APPROVED, AccessApproval, AskedAccess, AskedAccesses, HeldRequest, end_early
from databroker.models import User
from databroker.records import SessionRecord, UserRecord
from databroker.store.base import VersionConflict
from foundation.email_address import canonical_email
from foundation.web.message import Message

log = structlog.get_logger(__name__)

DEFAULT_REASON = "no reason given"


class NotPermitted(AccessError):
    """Whoever asks may not do that."""

    status = 403


class RequestNotFound(AccessError):
    """It is over, was answered by somebody else, or is of a route that is not there any more."""

    status = 404


@dataclass(frozen=True, slots=True)
class AccessActor:
    """Caller of the desk: who is signed in, with an identity made of their records at this moment."""

    session: SessionRecord
    identity: Identity
    name: str
    audit: AuditLog = field(repr=False)
    secret_viewers: tuple[str, ...] = ()  # of a program: all who could answer by it

    @property
    def grant_subject(self) -> AccessHolder:
        """Who has what this caller is given."""
        return grant_subject(self.session.user_id, self.session.vouched_by, self.identity.linked_id)

    def is_user(self, user_id: str, issuer: str) -> bool:
        return self.grant_subject == (user_id, issuer)

    @property
    def email(self) -> str:
        """Address by which users are told apart, canonical. An unverified one counts too: it may be the second account of a user."""
        return self.identity.verified_email or canonical_email(self.session.claims.get("email"))

    def is_requester_of(self, asked: AskedAccess) -> bool:
        """Whether it is, or may be, this person who has asked: by a second account as well, of the same address, or by a program."""
        return not self.as_approval(0.0).names.isdisjoint(asked.names)

    def audited(self, action: AuditAction, asked: AskedAccess) -> AbstractAsyncContextManager[None]:
        """Step about a request, recorded before it is taken."""
        return self.audit.step(action, User, [(asked.user_id, describe_request(asked))])

    def as_approval(self, at: float) -> AccessApproval:
        secret_viewers = (self.session.user_id, *self.secret_viewers)
        return AccessApproval(self.grant_subject.id, self.session.id, self.name, at, self.email, secret_viewers)


IdentityLookup = Callable[[str], Awaitable[Identity | None]]


class AccessRequestService:
    """Access desk of one set of Options.  AccessError says what can't be done, and why; BrokerError."""

    def __init__(
        self, options: Options, broker: BrokerClient, clock: Callable[[], float], tell: Callable[[AccessEvent], None] = lambda event: None
    ):
        self._tell = tell
        self._broker = broker
        self.rules = ApprovalPolicy(options.policy)
        self.links = RouteLinks(options)
        self._linked = {self.links.link_id(route): route for route in self.rules.routes}
        self._asked = AskedAccesses(broker, clock)
        self._accesses = TemporaryAccesses(broker, clock)
        self._clock = clock

    def route_for_link(self, link_id: str) -> Route | None:
        """Return the route that accepts access requests and has this id in links (`RouteLinks`), or None."""
        return self._linked.get(link_id)

    async def create(self, caller: AccessActor, route: Route, why: str, seconds: float) -> None:
        asking = route.access_requests
        if asking is None or not caller.identity.is_provider_user:
            raise RequestNotFound(Message("this application does not accept access requests"))
        if not 0 < seconds <= asking.max_duration.total_seconds():
            raise AccessError(
                Message("access can be requested for at most %(duration)s", duration=format_duration(asking.max_duration.total_seconds()))
            )
        if not may_request(route, caller.identity):
            raise NotPermitted(Message("this application does not accept users of your identity provider"))
        said = checked_why(why) if why.strip() or asking.reason == REQUIRED else DEFAULT_REASON
        holder = caller.grant_subject
        asked = AskedAccess(
            nonce=secrets.token_hex(16),
            user_id=holder.id,
            issuer=holder.issuer,
            person=caller.name,
            route=route.grant_key,
            route_name=route_title(route),
            why=said,
            duration=seconds,
            asked=self._clock(),
            email=caller.email,
            account=caller.session.user_id,
        )
        await self._asked.require_place(asked)
        async with caller.audited(AuditAction.REQUEST_ACCESS, asked):
            await self._asked.add(asked)
        self._say(
            caller, "requested", asked, f"{asked.person} requests access to {asked.route_name} for {format_duration(seconds)}: {said}"
        )

    async def break_glass(self, caller: AccessActor, route: Route, why: str, seconds: float) -> None:
        """Give oneself access at once, where the rule allows it to these people; loudly."""
        asking = route.access_requests.break_glass if route.access_requests is not None else None
        if asking is None or not self.can_break_glass(caller, route):
            raise NotPermitted(Message("you don't have emergency access to this application; nothing was changed"))
        if not 0 < seconds <= asking.max_duration.total_seconds():
            raise AccessError(
                Message("emergency access is limited to %(duration)s", duration=format_duration(asking.max_duration.total_seconds()))
            )
        now, holder, said = self._clock(), caller.grant_subject, checked_why(why)
        by, until = f"{caller.name} (break-glass)", now + seconds
        access = TemporaryAccess(secrets.token_hex(16), route.grant_key, now, until, by, said, route_title(route))
        words = f"{caller.name}, {access.route_name}, for {format_duration(seconds)}: {said}"
        async with caller.audit.step(AuditAction.BREAK_GLASS, User, [(holder.id, words)]):
            log.warning("break-glass access used", user_id=holder.id, route=access.route_name, until=until)
            await self._accesses.give(UserRecord(holder.id, name=caller.name, issuer=holder.issuer), access)
        line = f"EMERGENCY: {caller.name} used break-glass access to {access.route_name} for {format_duration(seconds)}: {said}"
        self._tell(AccessEvent(BREAK_GLASS_USED, caller.name, holder.id, access.route_name, said, caller.name, line, until))

    def can_break_glass(self, caller: AccessActor, route: Route) -> bool:
        return self.rules.may_break_glass(route.grant_key, caller.identity, self._clock())

    async def withdraw(self, caller: AccessActor, id: str, nonce: str) -> None:
        held = await self._found(id, nonce)
        if not caller.is_user(held.asked.user_id, held.asked.issuer):
            raise RequestNotFound(_GONE)
        await self._end(caller, held, AuditAction.WITHDRAW_REQUEST)
        self._say(caller, "withdrawn", held.asked, f"{held.asked.person} withdrew the request for {held.asked.route_name}")

    async def deny(self, caller: AccessActor, id: str, nonce: str) -> None:
        held = await self._found(id, nonce)
        self._check(caller, held.asked)
        await self._end(caller, held, AuditAction.DENY_REQUEST)
        self._say(caller, "denied", held.asked, f"{caller.name} denied {held.asked.person} access to {held.asked.route_name}")

    async def approve(self, caller: AccessActor, id: str, nonce: str, identities: IdentityLookup) -> AskedAccess:
        """The request with this approval, by which its access is given once there are enough."""
        held = await self._found(id, nonce)
        self._check(caller, held.asked)
        if held.asked.state != APPROVED:
            async with caller.audited(AuditAction.APPROVE_REQUEST, held.asked):
                changed = await self._with_approval(caller, held, identities)
            if changed.state != APPROVED:
                self._say(caller, "approved", changed, f"{caller.name} approved, more approvals needed: {describe_request(changed)}")
                return changed
            held = await self._found(id, nonce)
        await self._finish(caller, held)
        return held.asked

    async def _with_approval(self, caller: AccessActor, held: HeldRequest, identities: IdentityLookup) -> AskedAccess:
        """Write this approval into a request that others may change at the same time; NoSuchRequest where they have closed it."""
        for _ in range(TRIES):
            route = self._check(caller, held.asked)
            if held.asked.state == APPROVED:
                raise RequestNotFound(_GONE)
            changed = await self._approved(caller, held.asked, route, identities)
            try:
                await self._asked.change(held, changed)
            except VersionConflict:
                held = await self._found(held.id, held.asked.nonce)
                continue
            return changed
        raise AccessBusy(_BUSY)

    async def revoke(self, caller: AccessActor, user_id: str, id: str) -> None:
        """End access before its time: one's own, or where one is an approver."""
        found = await self._accesses.find(user_id, id)
        if found is None or not self._may_revoke(caller, *found):
            raise RequestNotFound(_ENDED)
        await self._revoke(found, caller.name, caller.audit)

    async def revoke_as_administrator(self, name: str, user_id: str, id: str, audit: AuditLog) -> None:
        """End anybody's access before its time: that takes away, so no approver need agree.  To give they have no way."""
        found = await self._accesses.find(user_id, id)
        if found is None:
            raise RequestNotFound(_ENDED)
        await self._revoke(found, name, audit)

    async def _revoke(self, found: tuple[TemporaryAccessRecord, TemporaryAccess], name: str, audit: AuditLog) -> None:
        held, access = found
        words = f"{held.person}, {access.route_name}"
        async with audit.step(AuditAction.REVOKE_ACCESS, User, [(held.user_id, words)]):
            if not await end_early(self._broker, held, access, self._clock):
                raise RequestNotFound(_ENDED)
        line = f"{name} revoked the access of {held.person} to {access.route_name}"
        self._tell(AccessEvent("revoked", held.person, held.user_id, access.route_name, access.why, name, line))

    async def pending_for(self, caller: AccessActor) -> AsyncGenerator[HeldRequest]:
        """Requests that this caller may answer.  They are read for approvers alone: each page with a navigation asks for this."""
        now = self._clock()
        if not any(self.rules.may_approve(route.grant_key, caller.identity, now) for route in self.rules.routes):
            return
        async for held in self._asked.all():
            if self.can_decide(caller, held.asked):
                yield held

    async def list_for(self, caller: AccessActor) -> list[HeldRequest]:
        return await self._asked.of_person(*caller.grant_subject)

    async def grants_visible_to(self, caller: AccessActor) -> AsyncGenerator[tuple[TemporaryAccessRecord, TemporaryAccess]]:
        """Access that this caller has, or may end."""
        async for held, access in self._accesses.list():
            if self._may_revoke(caller, held, access):
                yield held, access

    def can_decide(self, caller: AccessActor, asked: AskedAccess) -> bool:
        """Nobody answers themselves, whatever they are."""
        if caller.is_requester_of(asked):
            return False
        return self.rules.may_approve(asked.route, caller.identity, self._clock())

    def _may_revoke(self, caller: AccessActor, held: TemporaryAccessRecord, access: TemporaryAccess) -> bool:
        if caller.is_user(held.user_id, held.issuer):
            return True
        return self.rules.may_approve(access.route, caller.identity, self._clock())

    def _check(self, caller: AccessActor, asked: AskedAccess) -> Route:
        route = self.rules.route(asked.route)
        if route is None:
            raise RequestNotFound(_GONE)
        if not self.can_decide(caller, asked):
            raise NotPermitted(Message("you can't approve or deny this request; nothing was changed"))
        return route

    async def _found(self, id: str, nonce: str) -> HeldRequest:
        held = await self._asked.find(id, nonce)
        if held is None:
            raise RequestNotFound(_GONE)
        return held

    async def _approved(self, caller: AccessActor, asked: AskedAccess, route: Route, identities: IdentityLookup) -> AskedAccess:
        """The request with this approval and those that still count: of different people, each of whom is an approver now."""
        now = self._clock()
        own = caller.as_approval(now)
        others = [each for each in asked.approvals if each.names.isdisjoint(own.names)]
        approvals = (*[each for each in others if await self._counts(each, asked, identities, now)], own)
        asking = route.access_requests
        if asking is None or len(approvals) < asking.approvals:
            return replace(asked, approvals=approvals)
        lasts = min(asked.duration, asking.max_duration.total_seconds())  # the rule may have changed since
        return replace(asked, approvals=approvals, state=APPROVED, duration=lasts, until=now + lasts)

    async def _counts(self, approval: AccessApproval, asked: AskedAccess, identities: IdentityLookup, now: float) -> bool:
        identity = await identities(approval.session_id) or await load_account_identity(approval.session_id, self._broker, now)
        if identity is None or identity.principal_id != approval.user_id:
            return False
        # A program has no session that could end: its secret, and what was said by one that has ended may have been said by anybody.
        if identity.provider == PROVIDER and identity.issued_at > approval.at:
            return False
        return self.rules.may_approve(asked.route, identity, now)

    async def _finish(self, caller: AccessActor, held: HeldRequest) -> None:
        """Give what was approved.  Whoever comes again after a failure finishes the same: the access has the request's own number."""
        asked, now = held.asked, self._clock()
        by, approved = ", ".join(each.name for each in asked.approvals), max((each.at for each in asked.approvals), default=asked.asked)
        access = TemporaryAccess(asked.nonce, asked.route, min(now, asked.until), asked.until, by, asked.why, asked.route_name)
        try:
            async with caller.audited(AuditAction.GRANT_ACCESS, asked):
                await self._accesses.give(UserRecord(asked.user_id, name=asked.person, issuer=asked.issuer), access, approved)
        except AccessBusy:
            raise
        except AccessError:  # it can't be given any more, however often somebody tries
            await self._close(held)
            raise
        log.info("temporary access granted", user_id=asked.user_id, route=asked.route_name, until=asked.until, by=by)
        self._say(caller, "granted", asked, f"{by} granted access: {describe_request(asked)}")
        await self._close(held)

    def _say(self, caller: AccessActor, event: str, asked: AskedAccess, line: str) -> None:
        self._tell(AccessEvent(event, asked.person, asked.user_id, asked.route_name, asked.why, caller.name, line, asked.until))

    async def _close(self, held: HeldRequest) -> None:
        try:
            await self._asked.close(held)
        except VersionConflict:
            return  # another approver has finished it, too

    async def _end(self, caller: AccessActor, held: HeldRequest, action: AuditAction) -> None:
        if held.asked.state == APPROVED:
            raise RequestNotFound(Message("this request is already approved; nothing was changed"))
        try:
            async with caller.audited(action, held.asked):
                await self._asked.close(held)
        except VersionConflict:
            raise RequestNotFound(_GONE) from None


_GONE = Message("this request is already closed; nothing was changed")
_ENDED = Message("this access has already ended; nothing was changed")
_BUSY = Message("another approver changed this request; reload the page and try again")


def describe_request(asked: AskedAccess) -> str:
    return f"{asked.person}, {asked.route_name}, for {format_duration(asked.duration)}: {asked.why}"


def route_title(route: Route) -> str:
    return route.title or route_name(route)


_UNITS = (
    (1440, Message("1 day"), Message("%(number)s days")),
    (60, Message("1 hour"), Message("%(number)s hours")),
    (1, Message("1 minute"), Message("%(number)s minutes")),
)


def format_duration(seconds: float) -> Message:
    """`1 hour 30 minutes`, in whole minutes."""
    left, said = max(1, round(seconds / 60)), list[Message]()
    for minutes, one, several in _UNITS:
        number, left = divmod(left, minutes)
        if number:
            said.append(one if number == 1 else several.filled(number=number))
    return reduce(lambda longer, shorter: Message("%(longer)s %(shorter)s", longer=longer, shorter=shorter), said)
