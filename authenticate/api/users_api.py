"""API of users: those who have signed in or are in the directory, with their groups."""

from asgiref.sync import sync_to_async
from pydantic import Field

from authenticate.api.api_call import ApiCall
from authenticate.api.api_operation import operation
from authenticate.api.api_types import PageQuery, PlainText, ResponseModel, Timestamp, to_rfc3339
from authenticate.api.cursors import decode_cursor, encode_cursor
from databroker.admin import row_search
from databroker.models import Group, Membership, User

LIST_NAME = "users"
MAX_GROUPS = 500  # of one user in a response


class UserQuery(PageQuery):
    id: PlainText | None = Field(None, description="Only this user: `provider/subject`.")
    email: PlainText | None = Field(None, description="Only the user with exactly this address, verified by a provider that may assert it.")
    group: PlainText | None = Field(None, description="Only members of the group with this id.")
    q: PlainText | None = Field(None, description="Words of an id, address, name or group; all must match.")


class UserGroup(ResponseModel):
    id: str
    name: str
    from_directory: bool
    from_claim: bool


class UserResource(ResponseModel):
    """A user as last reported by the provider.

    `groups` has the first 500 groups by id; `group_count` is the number of all.
    """

    id: str
    email: str
    unauthoritative_email: str = Field(
        description=(
            "Address that is not verified, or that the provider may not assert "
            "(`domains`): it matches no rule and may belong to another user."
        )
    )
    name: str
    last_sign_in_at: Timestamp
    groups: list[UserGroup]
    group_count: int


class UserList(ResponseModel):
    items: list[UserResource]
    next: str | None


@operation("GET", "users", "users:read", "Users with their groups, by id", query=UserQuery)
async def list_users(call: ApiCall) -> UserList:
    query: UserQuery = call.query
    return await sync_to_async(_page)(query, decode_cursor(LIST_NAME, query.cursor))


def _page(query: UserQuery, after: tuple[str, ...] | None) -> UserList:
    rows = User.objects.all()
    if query.id is not None:
        rows = rows.filter(pk=query.id)
    if query.email is not None:
        rows = rows.filter(email=query.email)
    if query.group is not None:
        rows = rows.filter(pk__in=Membership.objects.filter(group_id=query.group).values("user_id"))
    if after is not None:
        rows = rows.filter(pk__gt=after[0])
    matches = row_search.users(rows, query.q) if query.q is not None else rows
    found = list(matches.order_by("pk")[: query.limit + 1])
    page = found[: query.limit]
    groups = _load_groups([user.pk for user in page])
    items = [
        UserResource(
            id=user.pk,
            email=user.email,
            unauthoritative_email=user.unauthoritative_email,
            name=user.name,
            last_sign_in_at=to_rfc3339(user.last_sign_in_at),
            groups=groups.get(user.pk, [])[:MAX_GROUPS],
            group_count=len(groups.get(user.pk, [])),
        )
        for user in page
    ]
    return UserList(items=items, next=encode_cursor(LIST_NAME, page[-1].pk) if len(found) > len(page) else None)


def _load_groups(user_ids: list[str]) -> dict[str, list[UserGroup]]:
    """Return the groups of these users, by user id."""
    members = list(
        Membership.objects.filter(user_id__in=user_ids)
        .order_by("group_id")
        .values_list("user_id", "group_id", "from_directory", "from_claim")
    )
    names = dict(Group.objects.filter(pk__in={group for _, group, _, _ in members}).values_list("pk", "name"))
    groups: dict[str, list[UserGroup]] = {}
    for user, group, from_directory, from_claim in members:
        entry = UserGroup(id=group, name=names.get(group, ""), from_directory=from_directory, from_claim=from_claim)
        groups.setdefault(user, []).append(entry)
    return groups
