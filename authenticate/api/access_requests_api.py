"""API of requests for access: those that wait, and their answer by a program that the route's approvers name."""

from pydantic import Field

from authenticate.access_requests.access_request_service import AccessActor
from authenticate.api.api_call import ApiCall
from authenticate.api.api_operation import operation
from authenticate.api.api_types import PageQuery, PlainText, ResponseModel, Timestamp, to_rfc3339
from authenticate.api.cursors import decode_cursor, encode_cursor
from authorize.identity.service_account_loader import identity_of
from config.settings.provider_entry import SERVICE_ACCOUNT as PROVIDER
from databroker.grants.request_store import APPROVED, AskedAccesses, HeldRequest
from databroker.records import ServiceAccountRecord, SessionRecord
from foundation.email_address import canonical_email

LIST = "requests"
ID = r"[0-9a-f]{24}-[0-9a-f]{24}-[0-9]\.[0-9a-f]{32}"


class AccessRequestQuery(PageQuery):
    user_id: PlainText | None = Field(None, description="Only of this user: `provider/subject`.")


class AccessRequestResource(ResponseModel):
    """A request that nobody has answered yet, or not enough."""

    id: str
    user_id: str
    person: str
    route: str
    why: str
    seconds: int
    asked: Timestamp
    expires: Timestamp
    approved_by: list[str]
    may_answer: bool = Field(description="Whether the calling service account is an approver of the route.")


class AccessRequestList(ResponseModel):
    items: list[AccessRequestResource]
    next: str | None


class AccessRequestResult(ResponseModel):
    is_given: bool = Field(description="False if more approvals are needed.")
    until: Timestamp


@operation("GET", "requests", "requests:read", "Pending access requests", query=AccessRequestQuery)
async def list_requests(call: ApiCall) -> AccessRequestList:
    query: AccessRequestQuery = call.query
    after, caller = decode_cursor(LIST, query.cursor), actor_for(call)
    page: list[HeldRequest] = []
    async for held in AskedAccesses(call.context.broker, call.context.clock).all():
        if (after is not None and held.id <= after[0]) or query.user_id not in (None, held.asked.user_id):
            continue
        page.append(held)
        if len(page) > query.limit:
            break
    shown = page[: query.limit]
    items = [_shown(call, caller, held) for held in shown]
    return AccessRequestList(items=items, next=encode_cursor(LIST, shown[-1].id) if len(page) > len(shown) else None)


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
    asked = await call.context.desk.approve(actor_for(call), id, nonce, call.context.identities)
    return AccessRequestResult(is_given=asked.state == APPROVED, until=to_rfc3339(asked.until))


@operation(
    "POST",
    "requests/{id}/refuse",
    "requests:decide",
    "Deny an access request as an approver of its route",
    id_pattern=ID,
    problems=(404, 409),
)
async def deny_request(call: ApiCall) -> None:
    id, _, nonce = call.id.partition(".")
    await call.context.desk.deny(actor_for(call), id, nonce)


def actor_for(call: ApiCall) -> AccessActor:
    """The program as the access desk knows who answers: by its own id, which is no person's, and never as one."""
    account, id = call.principal.account, call.principal.id
    session = SessionRecord(id, id, id, PROVIDER, account.created, account.expires)
    return AccessActor(session, identity_of(account, call.context.clock()), id, call.audit, _known_to(account))


def _known_to(account: ServiceAccountRecord) -> tuple[str, ...]:
    """Who has seen its secret, as requests name people: addresses in the form that rules compare."""
    return tuple(dict.fromkeys(canonical_email(name) or name for name in account.secret_viewers))


def _shown(call: ApiCall, caller: AccessActor, held: HeldRequest) -> AccessRequestResource:
    asked = held.asked
    return AccessRequestResource(
        id=f"{held.id}.{asked.nonce}",
        user_id=asked.user_id,
        person=asked.person,
        route=asked.route_name,
        why=asked.why,
        seconds=int(asked.duration),
        asked=to_rfc3339(asked.asked),
        expires=to_rfc3339(asked.expires),
        approved_by=[each.name for each in asked.approvals],
        may_answer=call.context.desk.can_decide(caller, asked),
    )
