"""API of service accounts: list, create and revoke them.  An account creates only accounts with at most its own rights."""

from datetime import timedelta
from typing import Annotated, Any

from asgiref.sync import sync_to_async
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from authenticate.api.api_authenticator import ApiPrincipal
from authenticate.api.api_call import ApiCall
from authenticate.api.api_operation import operation
from authenticate.api.api_problems import ApiProblem
from authenticate.api.api_types import PLAIN_PATTERN, PageQuery, PlainText, RequestModel, ResponseModel, Timestamp, to_rfc3339
from authenticate.api.cursors import decode_cursor, encode_cursor
from databroker.audit_log import AuditAction
from databroker.models import ServiceAccount
from databroker.permissions import PERMISSIONS
from databroker.records import ServiceAccountRecord
from databroker.service_account_store import MAX_GROUP_LENGTH, MAX_GROUPS, NAME_SEPARATOR, NO_EXPIRY, ServiceAccounts, ended_with_creator

LIST_NAME = "service_accounts"
ID = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
DEFAULT_LIFETIME_SECONDS, MAX_LIFETIME_SECONDS = (int(timedelta(days=days).total_seconds()) for days in (90, 3660))

GroupText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_GROUP_LENGTH, pattern=PLAIN_PATTERN)]


def _require_known(name: str) -> str:
    if name not in PERMISSIONS:
        raise ValueError("is not a permission")
    return name


def _to_integer(number: Any) -> Any:
    """Convert 60.0 to 60, because both are integers in JSON Schema."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


PermissionText = Annotated[str, AfterValidator(_require_known), Field(json_schema_extra={"enum": list(PERMISSIONS)})]


class ServiceAccountQuery(PageQuery):
    q: PlainText | None = Field(None, description="Part of a name, group, permission or creator.")


class ServiceAccountCreate(RequestModel):
    name: Annotated[str, StringConstraints(pattern=f"^{ID}$", max_length=63)] = Field(
        description="Name of the calling service account, two hyphens, and a suffix: `ci` creates `ci--nightly`."
    )
    groups: list[GroupText] = Field([], max_length=MAX_GROUPS, description="Groups, from those of the calling service account.")
    permissions: list[PermissionText] = Field(
        [], max_length=len(PERMISSIONS), description="Permissions, from those of the calling service account."
    )
    lifetime_seconds: Annotated[int | None, BeforeValidator(_to_integer)] = Field(
        None, ge=60, le=MAX_LIFETIME_SECONDS, description="Lifetime: 90 days by default, at most the remaining lifetime of the creator."
    )


class ServiceAccountResource(ResponseModel):
    name: str
    groups: list[str]
    permissions: list[str]
    created_at: Timestamp
    created_by: str
    rotated_at: Timestamp
    expires_at: Timestamp
    last_used_at: Timestamp
    last_host: str
    ended_with_creator: bool = Field(
        description="Whether it is rejected because a creator was revoked, has expired, or has another secret."
    )


class ServiceAccountList(ResponseModel):
    items: list[ServiceAccountResource]
    next: str | None


class ServiceAccountCreated(ResponseModel):
    name: str
    token: str = Field(description="Secret, returned only once.")
    expires_at: Timestamp


@operation("GET", "service_accounts", "service_accounts:read", "Service accounts, by name", query=ServiceAccountQuery)
async def list_service_accounts(call: ApiCall) -> ServiceAccountList:
    query: ServiceAccountQuery = call.query
    after = decode_cursor(LIST_NAME, query.cursor)
    accounts = sorted(await _accounts(call).list(), key=lambda account: account.name)
    found = [each for each in accounts if (after is None or each.name > after[0]) and _matches(each, query.q)]
    page = found[: query.limit]
    rows = await sync_to_async(ServiceAccount.objects.in_bulk)([account.name for account in page])
    ended = ended_with_creator(accounts, call.context.clock())
    items = [_to_response(account, rows.get(account.name), account.name in ended) for account in page]
    return ServiceAccountList(items=items, next=encode_cursor(LIST_NAME, page[-1].name) if len(found) > len(page) else None)


@operation(
    "POST",
    "service_accounts",
    "service_accounts:write",
    "Create a service account with at most the rights of the caller",
    body=ServiceAccountCreate,
    problems=(409,),
)
async def create_service_account(call: ApiCall) -> ServiceAccountCreated:
    requested: ServiceAccountCreate = call.body
    lifetime = granted_lifetime(requested, call.principal, call.context.clock())
    name, creator = requested.name, call.principal
    async with call.audit.step(AuditAction.CREATE_ACCOUNT, ServiceAccount, [(name, name)]):
        token = await _accounts(call).create(
            name,
            requested.groups,
            lifetime,
            creator.id,
            requested.permissions,
            not_after=creator.account.expires_at,
            secret_viewers=(creator.id, *creator.account.secret_viewers),
            creator_secret_hash=creator.secret_hash,
        )
    return ServiceAccountCreated(name=name, token=token, expires_at=to_rfc3339(call.context.clock() + lifetime))


@operation(
    "DELETE", "service_accounts/{id}", "service_accounts:write", "Revoke a service account permanently", id_pattern=ID, problems=(404,)
)
async def revoke_service_account(call: ApiCall) -> None:
    async with call.audit.step(AuditAction.REVOKE_ACCOUNT, ServiceAccount, [(call.id, call.id)]):
        await _accounts(call).revoke(call.id)


# enforcement-point: Identity: Lifetime of service accounts created through the API
def granted_lifetime(requested: ServiceAccountCreate, principal: ApiPrincipal, now: float) -> float:
    """Return the lifetime of the new account in seconds.

    Raises ApiProblem 403 if it would have a right that its creator lacks: a permission, a group, a later expiry, or another name than
    `<creator>--<suffix>`, because rules and applications may refer to names.
    """
    creator = principal.account
    for name in requested.permissions:
        if name not in creator.permissions:
            raise ApiProblem(403, f"{creator.name} lacks the permission {name} and can't grant it", permission=name)
    if missing := sorted(set(requested.groups) - set(creator.groups)):
        raise ApiProblem(403, f"{creator.name} is not in the group {missing[0]} and can't grant it")
    if not requested.name.startswith(f"{creator.name}{NAME_SEPARATOR}"):
        raise ApiProblem(403, f"accounts created by {creator.name} must be named {creator.name}{NAME_SEPARATOR}suffix")
    remaining = creator.expires_at - now
    if requested.lifetime_seconds is not None and requested.lifetime_seconds > remaining:
        raise ApiProblem(403, f"{creator.name} expires earlier")
    return float(min(requested.lifetime_seconds or DEFAULT_LIFETIME_SECONDS, remaining))


def _accounts(call: ApiCall) -> ServiceAccounts:
    return ServiceAccounts(call.context.broker, call.context.clock)


def _matches(account: ServiceAccountRecord, text: str | None) -> bool:
    texts = (account.name, *account.groups, *account.permissions, account.created_by)
    return text is None or any(text.casefold() in each.casefold() for each in texts)


def _to_response(account: ServiceAccountRecord, row: Any, has_ended: bool) -> ServiceAccountResource:
    return ServiceAccountResource(
        name=account.name,
        groups=list(account.groups),
        permissions=list(account.permissions),
        created_at=to_rfc3339(account.created_at),
        created_by=account.created_by,
        rotated_at=to_rfc3339(account.rotated_at),
        expires_at=to_rfc3339(account.expires_at) if account.expires_at < NO_EXPIRY else None,
        last_used_at=to_rfc3339(row.last_seen_at) if row is not None else None,
        last_host=row.last_host if row is not None else "",
        ended_with_creator=has_ended,
    )
