"""API of access requests: list pending ones, approve and deny them as a service account that is an approver."""

from pydantic import Field

from authenticate.access_requests.access_request_service import AccessActor
from authenticate.api.api_call import ApiCall
from authenticate.api.api_operation import operation
from authenticate.api.api_types import PageQuery, PlainText, ResponseModel, Timestamp, to_rfc3339
from authenticate.api.cursors import decode_cursor, encode_cursor
from authorize.identity.service_account_loader import build_account_identity
from config.settings.provider_entry import SERVICE_ACCOUNT as PROVIDER
from databroker.grants.access_request_store import APPROVED, AccessRequestStore, StoredAccessRequest
from databroker.records import ServiceAccountRecord, SessionRecord
from foundation.email_address import canonical_email

LIST_NAME = "requests"
ID = r"[0-9a-f]{24}-[0-9a-f]{24}-[0-9]\.[0-9a-f]{32}"


class AccessRequestQuery(PageQuery):
    user_id: PlainText | None = Field(None, description="Only of this user: `provider/subject`.")


class AccessRequestResource(ResponseModel):
    """A pending access request."""

    id: str
    user_id: str
    user: str
    route: str
    tool: str = Field(description="Tool of an MCP server to which the access is limited. Empty for the complete route.")
    reason: str
    duration_seconds: int
    requested_at: Timestamp
    expires_at: Timestamp
    approved_by: list[str]
    can_decide: bool = Field(description="Whether the calling service account is an approver of the route.")


class AccessRequestList(ResponseModel):
    items: list[AccessRequestResource]
    next: str | None


class AccessRequestResult(ResponseModel):
    granted: bool = Field(description="False if more approvals are needed.")
    expires_at: Timestamp


@operation("GET", "requests", "requests:read", "Pending access requests", query=AccessRequestQuery)
async def list_requests(call: ApiCall) -> AccessRequestList:
    query: AccessRequestQuery = call.query
    after, actor = decode_cursor(LIST_NAME, query.cursor), actor_for(call)
    found: list[StoredAccessRequest] = []
    async for held in AccessRequestStore(call.context.broker, call.context.clock).iter_pending():
        if (after is not None and held.id <= after[0]) or query.user_id not in (None, held.request.user_id):
            continue
        found.append(held)
        if len(found) > query.limit:
            break
    page = found[: query.limit]
    items = [_to_response(call, actor, held) for held in page]
    return AccessRequestList(items=items, next=encode_cursor(LIST_NAME, page[-1].id) if len(found) > len(page) else None)


@operation(
    "POST",
    "requests/{id}/approve",
    "requests:decide",
    "Approve an access request as an approver of its route",
    id_pattern=ID,
    problems=(404, 409),
)
async def approve_request(call: ApiCall) -> AccessRequestResult:
    id, _, nonce = call.id.partition(".")
    request = await call.context.access_requests.approve(actor_for(call), id, nonce, call.context.identities)
    return AccessRequestResult(granted=request.state == APPROVED, expires_at=to_rfc3339(request.grant_expires_at))


@operation(
    "POST",
    "requests/{id}/deny",
    "requests:decide",
    "Deny an access request as an approver of its route",
    id_pattern=ID,
    problems=(404, 409),
)
async def deny_request(call: ApiCall) -> None:
    id, _, nonce = call.id.partition(".")
    await call.context.access_requests.deny(actor_for(call), id, nonce)


def actor_for(call: ApiCall) -> AccessActor:
    """Return the calling service account as an approver.

    Its id is `service_account/<name>`, so it never equals a user.
    """
    account, id = call.principal.account, call.principal.id
    session = SessionRecord(id, id, id, PROVIDER, account.created_at, account.expires_at)
    return AccessActor(session, build_account_identity(account, call.context.clock()), id, call.audit, _secret_viewers(account))


def _secret_viewers(account: ServiceAccountRecord) -> tuple[str, ...]:
    """Return the users who have seen the secret; addresses in canonical form, as access requests identify users."""
    return tuple(dict.fromkeys(canonical_email(name) or name for name in account.secret_viewers))


def _to_response(call: ApiCall, actor: AccessActor, held: StoredAccessRequest) -> AccessRequestResource:
    request = held.request
    return AccessRequestResource(
        id=f"{held.id}.{request.request_id}",
        user_id=request.user_id,
        user=request.display_name,
        route=request.route_name,
        tool=request.tool,
        reason=request.reason,
        duration_seconds=int(request.duration_seconds),
        requested_at=to_rfc3339(request.requested_at),
        expires_at=to_rfc3339(request.expires_at),
        approved_by=[each.name for each in request.approvals],
        can_decide=call.context.access_requests.can_decide(actor, request),
    )
