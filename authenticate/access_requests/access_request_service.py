"""Access requests: create, approve, deny and withdraw them, and revoke grants.  Every change is audited before it is applied."""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import reduce

import structlog

from authenticate.access_requests.access_webhook import BREAK_GLASS_USED, AccessEvent
from authenticate.access_requests.requested_access import access_title, require_requestable
from authorize.approval_policy import ApprovalPolicy, may_request
from authorize.identity.identity_builder import grant_subject
from authorize.identity.service_account_loader import load_account_identity
from authorize.policy.identity import Identity
from authorize.route_settings import RouteLinks
from config.options import Options
from config.routes.route import Route
from config.routes.route_access_requests import REQUIRED
from config.settings.provider_entry import SERVICE_ACCOUNT as PROVIDER
from databroker.audit_log import AuditAction, AuditLog
from databroker.broker_client import BrokerClient
from databroker.grants.access_request_store import (
    APPROVED,
    AccessApproval,
    AccessRequest,
    AccessRequestStore,
    StoredAccessRequest,
    end_early,
)
from databroker.grants.grant_records import AccessGrant, GrantSubject, UserGrants
from databroker.grants.grant_store import MAX_ATTEMPTS, AccessError, GrantConflict, GrantStore, validate_reason
from databroker.models import User
from databroker.records import SessionRecord, UserRecord
from databroker.store.base import VersionConflict
from foundation.email_address import canonical_email
from foundation.web.message import Message

log = structlog.get_logger(__name__)

DEFAULT_REASON = "no reason given"


class NotPermitted(AccessError):
    """The actor may not do this."""

    status = 403


class RequestNotFound(AccessError):
    """The request or grant has ended, or its route no longer accepts requests."""

    status = 404


@dataclass(frozen=True, slots=True)
class AccessActor:
    """Actor: a signed-in user or a service account, with its current identity."""

    session: SessionRecord
    identity: Identity
    name: str
    audit: AuditLog = field(repr=False)
    secret_viewers: tuple[str, ...] = ()  # of a service account: users who know its secret

    @property
    def grant_subject(self) -> GrantSubject:
        """User that grants of this actor belong to."""
        return grant_subject(self.session.user_id, self.session.effective_issuer, self.identity.linked_id)

    def is_user(self, user_id: str, issuer: str) -> bool:
        return self.grant_subject == (user_id, issuer)

    @property
    def email(self) -> str:
        """Canonical address that identifies the user.  An unverified one is included: it may be a second account of the same user."""
        return self.identity.verified_email or canonical_email(self.session.claims.get("email"))

    def is_requester_of(self, request: AccessRequest) -> bool:
        """Return whether this is or may be the requester: also with a second account of the same address, or a service account."""
        return not self.as_approval(0.0).identifiers.isdisjoint(request.identifiers)

    def audited(self, action: AuditAction, request: AccessRequest) -> AbstractAsyncContextManager[None]:
        """Return a context that audits an action on a request before running it."""
        return self.audit.step(action, User, [(request.user_id, describe_request(request))])

    def as_approval(self, approved_at: float) -> AccessApproval:
        secret_viewers = (self.session.user_id, *self.secret_viewers)
        return AccessApproval(self.grant_subject.id, self.session.id, self.name, approved_at, self.email, secret_viewers)


IdentityLookup = Callable[[str], Awaitable[Identity | None]]


class AccessRequestService:
    """Access requests under one set of Options.  Methods raise AccessError with a message for the user, and BrokerError."""

    def __init__(
        self,
        options: Options,
        broker: BrokerClient,
        clock: Callable[[], float],
        send_event: Callable[[AccessEvent], None] = lambda event: None,
    ):
        self._send_event = send_event
        self._broker = broker
        self.rules = ApprovalPolicy(options.policy)
        self.links = RouteLinks(options)
        self._linked = {self.links.link_id(route): route for route in self.rules.routes}
        self._requests = AccessRequestStore(broker, clock)
        self._grants = GrantStore(broker, clock)
        self._clock = clock

    def route_for_link(self, link_id: str) -> Route | None:
        """Return the route that accepts access requests and has this id in links (`RouteLinks`), or None."""
        return self._linked.get(link_id)

    async def create(self, actor: AccessActor, route: Route, why: str, seconds: float, tool: str = "") -> None:
        """Request access to a route, or to one tool of an MCP server."""
        settings = route.access_requests
        if settings is None or not actor.identity.is_provider_user:
            raise RequestNotFound(Message("this application does not accept access requests"))
        require_requestable(route, tool)
        if not 0 < seconds <= settings.max_duration.total_seconds():
            raise AccessError(
                Message("access can be requested for at most %(duration)s", duration=format_duration(settings.max_duration.total_seconds()))
            )
        if not may_request(route, actor.identity):
            raise NotPermitted(Message("this application does not accept users of your identity provider"))
        reason = validate_reason(why) if why.strip() or settings.reason == REQUIRED else DEFAULT_REASON
        holder = actor.grant_subject
        request = AccessRequest(
            request_id=secrets.token_hex(16),
            user_id=holder.id,
            issuer=holder.issuer,
            display_name=actor.name,
            route=route.grant_key,
            route_name=access_title(route, tool),
            reason=reason,
            duration_seconds=seconds,
            requested_at=self._clock(),
            email=actor.email,
            account_id=actor.session.user_id,
            tool=tool,
        )
        await self._requests.check_quota(request)
        async with actor.audited(AuditAction.REQUEST_ACCESS, request):
            await self._requests.add(request)
        self._notify(
            actor,
            "requested",
            request,
            f"{request.display_name} requests access to {request.route_name} for {format_duration(seconds)}: {reason}",
        )

    async def break_glass(self, actor: AccessActor, route: Route, why: str, seconds: float, tool: str = "") -> None:
        """Grant the actor emergency access immediately, if the rule allows it.  A warning is logged and the webhook is called."""
        settings = route.access_requests.break_glass if route.access_requests is not None else None
        if settings is None or not self.can_break_glass(actor, route):
            raise NotPermitted(Message("you don't have emergency access to this application; nothing was changed"))
        if not 0 < seconds <= settings.max_duration.total_seconds():
            raise AccessError(
                Message("emergency access is limited to %(duration)s", duration=format_duration(settings.max_duration.total_seconds()))
            )
        require_requestable(route, tool)
        now, holder, reason = self._clock(), actor.grant_subject, validate_reason(why)
        granted_by, until = f"{actor.name} (break-glass)", now + seconds
        name = access_title(route, tool)
        access = AccessGrant(secrets.token_hex(16), route.grant_key, now, until, granted_by, reason, name, tool=tool)
        text = f"{actor.name}, {access.route_name}, for {format_duration(seconds)}: {reason}"
        async with actor.audit.step(AuditAction.BREAK_GLASS, User, [(holder.id, text)]):
            log.warning("break-glass access used", user_id=holder.id, route=access.route_name, expires_at=until)
            await self._grants.grant(UserRecord(holder.id, name=actor.name, issuer=holder.issuer), access)
        line = f"EMERGENCY: {actor.name} used break-glass access to {access.route_name} for {format_duration(seconds)}: {reason}"
        self._send_event(AccessEvent(BREAK_GLASS_USED, actor.name, holder.id, access.route_name, reason, actor.name, line, until))

    def can_break_glass(self, actor: AccessActor, route: Route) -> bool:
        return self.rules.may_break_glass(route.grant_key, actor.identity, self._clock())

    async def withdraw(self, actor: AccessActor, id: str, nonce: str) -> None:
        held = await self._get(id, nonce)
        if not actor.is_user(held.request.user_id, held.request.issuer):
            raise RequestNotFound(_REQUEST_CLOSED)
        await self._close_audited(actor, held, AuditAction.WITHDRAW_REQUEST)
        self._notify(actor, "withdrawn", held.request, f"{held.request.display_name} withdrew the request for {held.request.route_name}")

    async def deny(self, actor: AccessActor, id: str, nonce: str) -> None:
        held = await self._get(id, nonce)
        self._require_approver(actor, held.request)
        await self._close_audited(actor, held, AuditAction.DENY_REQUEST)
        self._notify(actor, "denied", held.request, f"{actor.name} denied {held.request.display_name} access to {held.request.route_name}")

    async def approve(self, actor: AccessActor, id: str, nonce: str, identities: IdentityLookup) -> AccessRequest:
        """Approve a request, create its grant if it has enough approvals, and return the request."""
        held = await self._get(id, nonce)
        self._require_approver(actor, held.request)
        if held.request.state != APPROVED:
            async with actor.audited(AuditAction.APPROVE_REQUEST, held.request):
                changed = await self._write_approval(actor, held, identities)
            if changed.state != APPROVED:
                self._notify(actor, "approved", changed, f"{actor.name} approved, more approvals needed: {describe_request(changed)}")
                return changed
            held = await self._get(id, nonce)
        await self._create_grant(actor, held)
        return held.request

    async def _write_approval(self, actor: AccessActor, held: StoredAccessRequest, identities: IdentityLookup) -> AccessRequest:
        """Write this approval, retrying on concurrent changes.  Raises RequestNotFound if another actor has closed the request."""
        for _ in range(MAX_ATTEMPTS):
            route = self._require_approver(actor, held.request)
            if held.request.state == APPROVED:
                raise RequestNotFound(_REQUEST_CLOSED)
            changed = await self._add_approval(actor, held.request, route, identities)
            try:
                await self._requests.change(held, changed)
            except VersionConflict:
                held = await self._get(held.id, held.request.request_id)
                continue
            return changed
        raise GrantConflict(_CONFLICT)

    async def revoke(self, actor: AccessActor, user_id: str, id: str) -> None:
        """Revoke a grant of the actor, or of a route that the actor approves."""
        found = await self._grants.find(user_id, id)
        if found is None or not self._may_revoke(actor, *found):
            raise RequestNotFound(_GRANT_ENDED)
        await self._revoke(found, actor.name, actor.audit)

    async def revoke_as_administrator(self, name: str, user_id: str, id: str, audit: AuditLog) -> None:
        """Revoke any grant.  Administrators need no approval to revoke, and cannot grant."""
        found = await self._grants.find(user_id, id)
        if found is None:
            raise RequestNotFound(_GRANT_ENDED)
        await self._revoke(found, name, audit)

    async def _revoke(self, found: tuple[UserGrants, AccessGrant], name: str, audit: AuditLog) -> None:
        held, access = found
        text = f"{held.display_name}, {access.route_name}"
        async with audit.step(AuditAction.REVOKE_ACCESS, User, [(held.user_id, text)]):
            if not await end_early(self._broker, held, access, self._clock):
                raise RequestNotFound(_GRANT_ENDED)
        line = f"{name} revoked the access of {held.display_name} to {access.route_name}"
        self._send_event(AccessEvent("revoked", held.display_name, held.user_id, access.route_name, access.reason, name, line))

    async def pending_for(self, actor: AccessActor) -> AsyncGenerator[StoredAccessRequest]:
        """Yield requests that this actor may decide.  Only approvers cause a read, because every page with a navigation calls this."""
        now = self._clock()
        if not any(self.rules.may_approve(route.grant_key, actor.identity, now) for route in self.rules.routes):
            return
        async for held in self._requests.iter_pending():
            if self.can_decide(actor, held.request):
                yield held

    async def list_for(self, actor: AccessActor) -> list[StoredAccessRequest]:
        return await self._requests.list_for(*actor.grant_subject)

    async def grants_visible_to(self, actor: AccessActor) -> AsyncGenerator[tuple[UserGrants, AccessGrant]]:
        """Yield grants that this actor has or may revoke."""
        async for held, access in self._grants.iter_grants():
            if self._may_revoke(actor, held, access):
                yield held, access

    def can_decide(self, actor: AccessActor, request: AccessRequest) -> bool:
        """Return whether the actor may approve or deny the request.  Requesters cannot decide their own."""
        if actor.is_requester_of(request):
            return False
        return self.rules.may_approve(request.route, actor.identity, self._clock())

    def _may_revoke(self, actor: AccessActor, held: UserGrants, access: AccessGrant) -> bool:
        if actor.is_user(held.user_id, held.issuer):
            return True
        return self.rules.may_approve(access.route, actor.identity, self._clock())

    def _require_approver(self, actor: AccessActor, request: AccessRequest) -> Route:
        route = self.rules.route(request.route)
        if route is None or route.access_requests is None or not route.access_requests.accepts(request.tool):
            raise RequestNotFound(_REQUEST_CLOSED)
        if not self.can_decide(actor, request):
            raise NotPermitted(Message("you can't approve or deny this request; nothing was changed"))
        return route

    async def _get(self, id: str, nonce: str) -> StoredAccessRequest:
        held = await self._requests.find(id, nonce)
        if held is None:
            raise RequestNotFound(_REQUEST_CLOSED)
        return held

    async def _add_approval(self, actor: AccessActor, request: AccessRequest, route: Route, identities: IdentityLookup) -> AccessRequest:
        """Return the request with this approval and the earlier ones that are still valid.

        They are of different users, and each is an approver now.
        """
        now = self._clock()
        approval = actor.as_approval(now)
        others = [each for each in request.approvals if each.identifiers.isdisjoint(approval.identifiers)]
        approvals = (*[each for each in others if await self._is_still_valid(each, request, identities, now)], approval)
        settings = route.access_requests
        if settings is None or len(approvals) < settings.approvals:
            return replace(request, approvals=approvals)
        duration = min(request.duration_seconds, settings.max_duration.total_seconds())  # the rule may have changed since the request
        return replace(request, approvals=approvals, state=APPROVED, duration_seconds=duration, grant_expires_at=now + duration)

    async def _is_still_valid(self, approval: AccessApproval, request: AccessRequest, identities: IdentityLookup, now: float) -> bool:
        identity = await identities(approval.session_id) or await load_account_identity(approval.session_id, self._broker, now)
        if identity is None or identity.principal_id != approval.user_id:
            return False
        # A service account has no session that ends.  After a rotation, its approvals may have been sent by anyone with the old secret.
        if identity.provider == PROVIDER and identity.issued_at > approval.approved_at:
            return False
        return self.rules.may_approve(request.route, identity, now)

    async def _create_grant(self, actor: AccessActor, held: StoredAccessRequest) -> None:
        """Create the grant of an approved request.  Repeating it is safe, because the grant has the request's id."""
        request, now = held.request, self._clock()
        granted_by, approved = (
            ", ".join(each.name for each in request.approvals),
            max((each.approved_at for each in request.approvals), default=request.requested_at),
        )
        access = AccessGrant(
            request.request_id,
            request.route,
            min(now, request.grant_expires_at),
            request.grant_expires_at,
            granted_by,
            request.reason,
            request.route_name,
            tool=request.tool,
        )
        try:
            async with actor.audited(AuditAction.GRANT_ACCESS, request):
                await self._grants.grant(UserRecord(request.user_id, name=request.display_name, issuer=request.issuer), access, approved)
        except GrantConflict:
            raise
        except AccessError:  # the grant can no longer be created, so repeating does not help
            await self._mark_closed(held)
            raise
        log.info(
            "temporary access granted",
            user_id=request.user_id,
            route=request.route_name,
            expires_at=request.grant_expires_at,
            granted_by=granted_by,
        )
        self._notify(actor, "granted", request, f"{granted_by} granted access: {describe_request(request)}")
        await self._mark_closed(held)

    def _notify(self, actor: AccessActor, event: str, request: AccessRequest, line: str) -> None:
        self._send_event(
            AccessEvent(
                event, request.display_name, request.user_id, request.route_name, request.reason, actor.name, line, request.grant_expires_at
            )
        )

    async def _mark_closed(self, held: StoredAccessRequest) -> None:
        try:
            await self._requests.close(held)
        except VersionConflict:
            return  # another approver closed it

    async def _close_audited(self, actor: AccessActor, held: StoredAccessRequest, action: AuditAction) -> None:
        if held.request.state == APPROVED:
            raise RequestNotFound(Message("this request is already approved; nothing was changed"))
        try:
            async with actor.audited(action, held.request):
                await self._requests.close(held)
        except VersionConflict:
            raise RequestNotFound(_REQUEST_CLOSED) from None


_REQUEST_CLOSED = Message("this request is already closed; nothing was changed")
_GRANT_ENDED = Message("this access has already ended; nothing was changed")
_CONFLICT = Message("another approver changed this request; reload the page and try again")


def describe_request(request: AccessRequest) -> str:
    return f"{request.display_name}, {request.route_name}, for {format_duration(request.duration_seconds)}: {request.reason}"


_UNITS = (
    (1440, Message("1 day"), Message("%(number)s days")),
    (60, Message("1 hour"), Message("%(number)s hours")),
    (1, Message("1 minute"), Message("%(number)s minutes")),
)


def format_duration(seconds: float) -> Message:
    """Format a duration in whole minutes, as `1 hour 30 minutes`."""
    left, parts = max(1, round(seconds / 60)), list[Message]()
    for minutes, one, several in _UNITS:
        number, left = divmod(left, minutes)
        if number:
            parts.append(one if number == 1 else several.with_params(number=number))
    return reduce(lambda longer, shorter: Message("%(longer)s %(shorter)s", longer=longer, shorter=shorter), parts)
