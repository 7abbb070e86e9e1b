"""API of service accounts: list, make and revoke them.  A program makes none that may do more than itself."""

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
from databroker.service_account_store import LONGEST_GROUP, MOST_GROUPS, NEVER, OWN, ServiceAccounts, ended_with_maker

LIST = "service_accounts"
ID = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
USUAL_LIFETIME, LONGEST = (int(timedelta(days=days).total_seconds()) for days in (90, 3660))

GroupText = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_GROUP, pattern=PLAIN_PATTERN)]


def _known(name: str) -> str:
    if name not in PERMISSIONS:
        raise ValueError("is not a permission")
    return name


def _whole(number: Any) -> Any:
    """JSON Schema knows no difference between 60 and 60.0."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


PermissionText = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": list(PERMISSIONS)})]


class ServiceAccountQuery(PageQuery):
    q: PlainText | None = Field(None, description="Part of a name, group, permission or creator.")


class ServiceAccountCreate(RequestModel):
    name: Annotated[str, StringConstraints(pattern=f"^{ID}$", max_length=63)] = Field(
        description="Name of the calling service account, two hyphens, and a suffix: `ci` creates `ci--nightly`."
    )
    groups: list[GroupText] = Field([], max_length=MOST_GROUPS, description="Groups, from those of the calling service account.")
    permissions: list[PermissionText] = Field(
        [], max_length=len(PERMISSIONS), description="Permissions, from those of the calling service account."
    )
    lifetime_seconds: Annotated[int | None, BeforeValidator(_whole)] = Field(
        None, ge=60, le=LONGEST, description="Lifetime: 90 days by default, at most the remaining lifetime of the creator."
    )


class ListedAccount(ResponseModel):
    name: str
    groups: list[str]
    permissions: list[str]
    created: Timestamp
    created_by: str
    rotated: Timestamp
    expires: Timestamp
    last_used: Timestamp
    last_host: str
    ended_with_maker: bool = Field(description="Whether it is rejected because a creator was revoked, has expired, or has another secret.")


class ServiceAccountList(ResponseModel):
    items: list[ListedAccount]
    next: str | None


class ServiceAccountCreated(ResponseModel):
    name: str
    token: str = Field(description="Secret, returned only once.")
    expires: Timestamp


@operation("GET", "service_accounts", "service_accounts:read", "Service accounts, by name", query=ServiceAccountQuery)
async def list_service_accounts(call: ApiCall) -> ServiceAccountList:
    query: ServiceAccountQuery = call.query
    after = decode_cursor(LIST, query.cursor)
    found = sorted(await _accounts(call).list(), key=lambda account: account.name)
    fits = [each for each in found if (after is None or each.name > after[0]) and _fits(each, query.q)]
    page = fits[: query.limit]
    rows = await sync_to_async(ServiceAccount.objects.in_bulk)([account.name for account in page])
    ended = ended_with_maker(found, call.context.clock())
    items = [_shown(account, rows.get(account.name), account.name in ended) for account in page]
    return ServiceAccountList(items=items, next=encode_cursor(LIST, page[-1].name) if len(fits) > len(page) else None)


@operation(
    "POST",
    "service_accounts",
    "service_accounts:write",
    "Create a service account with at most the rights of the caller",
    body=ServiceAccountCreate,
    problems=(409,),
)
async def create_service_account(call: ApiCall) -> ServiceAccountCreated:
    wanted: ServiceAccountCreate = call.body
    lifetime = granted_lifetime(wanted, call.principal, call.context.clock())
    name = wanted.name
    maker = call.principal
    async with call.audit.step(AuditAction.CREATE_ACCOUNT, ServiceAccount, [(name, name)]):
        token = await _accounts(call).create(
            name,
            wanted.groups,
            lifetime,
            maker.id,
            wanted.permissions,
            not_after=maker.account.expires,
            secret_viewers=(maker.id, *maker.account.secret_viewers),
            maker_secret_hash=maker.secret_hash,
        )
    return ServiceAccountCreated(name=name, token=token, expires=to_rfc3339(call.context.clock() + lifetime))


@operation(
    "DELETE", "service_accounts/{id}", "service_accounts:write", "Revoke a service account permanently", id_pattern=ID, problems=(404,)
)
async def revoke_service_account(call: ApiCall) -> None:
    async with call.audit.step(AuditAction.REVOKE_ACCOUNT, ServiceAccount, [(call.id, call.id)]):
        await _accounts(call).revoke(call.id)


# enforcement-point: Identity: Lifetime of service accounts created through the API
def granted_lifetime(wanted: ServiceAccountCreate, program: ApiPrincipal, now: float) -> float:
    """Seconds that the new account lives.  ApiProblem where it would be more than the program that makes it: by its permissions, its
    groups, its end, or its name, which rules and applications may know.
    """
    own = program.account
    for name in wanted.permissions:
        if name not in own.permissions:
            raise ApiProblem(403, f"{own.name} lacks the permission {name} and can't grant it", permission=name)
    if strange := sorted(set(wanted.groups) - set(own.groups)):
        raise ApiProblem(403, f"{own.name} is not in the group {strange[0]} and can't grant it")
    if not wanted.name.startswith(f"{own.name}{OWN}"):
        raise ApiProblem(403, f"accounts created by {own.name} must be named {own.name}{OWN}suffix")
    left = own.expires - now
    if wanted.lifetime_seconds is not None and wanted.lifetime_seconds > left:
        raise ApiProblem(403, f"{own.name} expires earlier")
    return float(min(wanted.lifetime_seconds or USUAL_LIFETIME, left))


def _accounts(call: ApiCall) -> ServiceAccounts:
    return ServiceAccounts(call.context.broker, call.context.clock)


def _fits(account: ServiceAccountRecord, word: str | None) -> bool:
    texts = (account.name, *account.groups, *account.permissions, account.created_by)
    return word is None or any(word.casefold() in text.casefold() for text in texts)


def _shown(account: ServiceAccountRecord, row: Any, has_ended: bool) -> ListedAccount:
    return ListedAccount(
        name=account.name,
        groups=list(account.groups),
        permissions=list(account.permissions),
        created=to_rfc3339(account.created),
        created_by=account.created_by,
        rotated=to_rfc3339(account.rotated),
        expires=to_rfc3339(account.expires) if account.expires < NEVER else None,
        last_used=to_rfc3339(row.last_seen_at) if row is not None else None,
        last_host=row.last_host if row is not None else "",
        ended_with_maker=has_ended,
    )
