"""Rows of the admin's tables: built from records, written, and deleted if they have no record."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from django.db import Error, connection, models, transaction

from config.issuers import applies_to_issuer
from databroker.agent_records import SessionClient
from databroker.claims import ProviderClaims
from databroker.models import MAX_ID_LENGTH, ConnectedAccount, DirectoryRun, Group, Membership, ServiceAccount, Session, User
from databroker.records import Record, issuer_in
from foundation.email_address import canonical_email, display_name
from foundation.errors import BrokerError

# Columns that are not in the row's record, so an update from the record preserves them.
LAST_SEEN_COLUMNS = ("last_seen_at", "last_host")
PRESERVED_COLUMNS = (*LAST_SEEN_COLUMNS, "from_claim")
COUNTS = ("users", "groups", "added", "changed", "removed", "requests")
BATCH_SIZE = 500
END_OF_TIME = 253_402_300_800
MODELS: tuple[type[models.Model], ...] = (Group, User, Session, ServiceAccount, DirectoryRun, ConnectedAccount)
# Prefix of ids of service accounts in session activity.
ACCOUNT_PREFIX = "service_account/"


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows to write and ids to delete.

    `members` are the memberships of the users in `upserts`.  `provider_claims` decides which groups and addresses in claims are
    authoritative.
    """

    provider_claims: ProviderClaims | None = None
    upserts: list[models.Model] = field(default_factory=list)
    deletes: list[tuple[type[models.Model], str]] = field(default_factory=list)
    members: list[Membership] = field(default_factory=list)

    def upserts_for(self, model: type[models.Model]) -> list[models.Model]:
        return [row for row in self.upserts if isinstance(row, model)]

    def deletes_for(self, model: type[models.Model]) -> list[str]:
        return [id for its_model, id in self.deletes if its_model is model]


def add_session(rows: RowBatch, id: str, session: Record) -> None:
    data, client = session.data, SessionClient.from_data(session.data)
    row = Session(
        id=id,
        user_id=_text(data, "user_id", MAX_ID_LENGTH) or None,
        started_at=to_datetime(data.get("issued_at")),
        expires_at=to_datetime(data.get("expires_at")),
        client_address=_text(data, "client_address", 64),
        user_agent=_text(data, "user_agent", 512),
        kind=client.kind.value,
        client_id=sanitize_text(client.client_id)[:512],
        resource=sanitize_text(client.resource)[:1024],
        scopes=sanitize_text(" ".join(client.scopes)),
    )
    return rows.upserts.append(row)


def add_user(rows: RowBatch, id: str, user: Record | None, directory_user: Record | None) -> None:
    """Add a user from the record of the sign-in and the directory record; the sign-in takes precedence.

    A directory record of another issuer is ignored.
    """
    user_data = user.data if user else {}
    directory_data = directory_user.data if directory_user and _is_same_user(user_data, directory_user.data) else {}
    email, unauthoritative_email = _select_addresses(rows.provider_claims, id, user_data, directory_data)
    row = User(
        id=id,
        email=email,
        unauthoritative_email=unauthoritative_email,
        name=display_name(_text(user_data, "name", 255) or _text(directory_data, "name", 255), email),
        last_sign_in_at=to_datetime(user_data.get("last_sign_in_at")),
    )
    prefix = rows.provider_claims.records_prefix(id) if rows.provider_claims else ""
    listed = {sanitize_text(f"{prefix}{group}")[:MAX_ID_LENGTH] for group in directory_data.get("group_ids") or ()}
    claimed = {group for group in rows.provider_claims.read_groups(id, user_data) if is_storable(group)} if rows.provider_claims else set()
    rows.members.extend(
        Membership(user_id=id, group_id=group, from_directory=group in listed, from_claim=group in claimed)
        for group in sorted(listed | claimed)
    )
    return rows.upserts.append(row)


def _select_addresses(
    provider_claims: ProviderClaims | None, id: str, user_data: Mapping[str, Any], directory_data: Mapping[str, Any]
) -> tuple[str, str]:
    """Return a user's authoritative email address, and another one that does not identify the user; each may be "".

    An address of the sign-in must be verified.  An address of the directory must differ from an unverified one of the sign-in.  The
    provider must be allowed to assert either.  A truncated address is never authoritative, because it is another address.
    """
    signed_in_with, listed = _text(user_data, "email", 255), _text(directory_data, "email", 255)
    if provider_claims is None:
        return signed_in_with or listed, ""
    if signed_in_with and provider_claims.verified_email(id, user_data) == signed_in_with:
        return signed_in_with, ""
    is_other = not signed_in_with or canonical_email(listed) != canonical_email(signed_in_with)
    if listed and is_other and listed == directory_data.get("email") and provider_claims.assertable_email(id, listed):
        return listed, signed_in_with
    return "", signed_in_with or listed


def _is_same_user(user_data: Mapping[str, Any], directory_data: Mapping[str, Any]) -> bool:
    """Return whether two records describe one user."""
    claims = user_data.get("claims")
    issuer = user_data.get("issuer") or issuer_in(claims if isinstance(claims, Mapping) else {})
    return not issuer or applies_to_issuer(str(directory_data.get("issuer") or ""), str(issuer))


def add_group(rows: RowBatch, id: str, group: Record) -> None:
    texts = {"name": _text(group.data, "name", 255), "email": _text(group.data, "email", 255), "issuer": _text(group.data, "issuer", 512)}
    return rows.upserts.append(Group(id=id, **texts))


def add_service_account(rows: RowBatch, id: str, account: Record) -> None:
    data = account.data
    row = ServiceAccount(
        id=id,
        groups=", ".join(sanitize_text(group) for group in data.get("groups") or ()),
        created_at=to_datetime(data.get("created_at")),
        created_by=_text(data, "created_by", 255),
        rotated_at=to_datetime(data.get("rotated_at")),
        expires_at=to_datetime(data.get("expires_at")),
        permissions=", ".join(sanitize_text(name) for name in data.get("permissions") or ()),
    )
    return rows.upserts.append(row)


def add_directory_run(rows: RowBatch, id: str, run: Record) -> None:
    data = run.data
    numbers = {name: data[name] for name in COUNTS if isinstance(data.get(name), int)}
    texts = {"source": _text(data, "source", 255), "triggered_by": _text(data, "triggered_by", 64), "error": _text(data, "error", 500)}
    return rows.upserts.append(
        DirectoryRun(
            id=id[:64],
            started_at=to_datetime(data.get("started_at")),
            duration_seconds=data.get("duration_seconds") or 0.0,
            **texts,
            **numbers,
        )
    )


def add_connected_account(rows: RowBatch, id: str, connection: Record) -> None:
    data = connection.data
    row = ConnectedAccount(
        id=id,
        user_id=_text(data, "user_id", MAX_ID_LENGTH) or None,
        resource=_text(data, "resource", 1024),
        server_fingerprint=_text(data, "server_fingerprint", 64),
        connected_at=to_datetime(data.get("connected_at")),
        refreshed_at=to_datetime(data.get("tokens_received_at")),
        usable_until=to_datetime(data.get("usable_until")),
    )
    return rows.upserts.append(row)


def write(rows: RowBatch) -> None:
    """Write the differing rows in one short transaction.  Call in a thread; closes the thread's connection."""
    try:
        # Compared before the transaction, because it blocks every other writer of SQLite, and usually there is nothing to write.
        written = {model: _changed_rows(model, rows.upserts_for(model)) for model in MODELS}
        old, new = _memberships(rows)
        groups = (
            {member.group_id for member in old if member.from_claim}
            | _unmarked_claim_groups(rows)
            | _stale_claim_flags({row.pk for row in rows.upserts_for(Group)})
        )
        if not (old or new or groups or rows.deletes or any(written.values())):
            return
        with transaction.atomic():
            for model, differing in written.items():
                _upsert(model, differing)
            Membership.rows.filter(pk__in=[member.pk for member in old]).delete()
            Membership.rows.bulk_create(new, ignore_conflicts=True)  # another process may have written them
            for model in MODELS:
                gone = model.rows.filter(pk__in=rows.deletes_for(model))
                gone.update(in_directory=False, name="", email="", issuer="") if model is Group else gone.delete()
            for part in _chunks({*groups, *rows.deletes_for(Group)}):
                _refresh_claim_flags(part)
    finally:
        connection.close()


def find_differences(rows: RowBatch) -> set[tuple[type[models.Model], str]]:
    """Return (table, id) of the rows that `write` would write or delete.  Call in a thread."""
    try:
        found = {(model, row.pk) for model in MODELS for row in _changed_rows(model, rows.upserts_for(model))}
        for model in MODELS:
            found |= {(model, id) for id in _backed_by_record(model).filter(pk__in=rows.deletes_for(model)).values_list("pk", flat=True)}
        old, new = _memberships(rows)
        groups = _unmarked_claim_groups(rows) | _stale_claim_flags({*rows.deletes_for(Group), *(row.pk for row in rows.upserts_for(Group))})
        return found | {(User, member.user_id) for member in [*old, *new]} | {(Group, id) for id in groups}
    finally:
        connection.close()


def _changed_rows(model: type[models.Model], rows: list[models.Model]) -> list[models.Model]:
    """Return the rows that differ from the table."""
    if not rows:
        return []
    names = [field.attname for field in model._meta.concrete_fields if field.name not in PRESERVED_COLUMNS]
    existing = {values[0]: values for values in model.objects.filter(pk__in=[row.pk for row in rows]).values_list("pk", *names)}
    return [row for row in rows if existing.get(row.pk) != (row.pk, *(getattr(row, name) for name in names))]


def _memberships(rows: RowBatch) -> tuple[list[Membership], list[Membership]]:
    """Return the outdated and the new memberships of these users.  A membership whose sources changed is in both."""
    users = [*(row.pk for row in rows.upserts_for(User)), *rows.deletes_for(User)]
    existing = {_membership_key(member): member for member in Membership.objects.filter(user_id__in=users)} if users else {}
    expected = {_membership_key(member): member for member in rows.members}
    return [existing[each] for each in existing.keys() - expected.keys()], [
        expected[each] for each in sorted(expected.keys() - existing.keys())
    ]


def _membership_key(member: Membership) -> tuple[str, str, bool, bool]:
    return member.user_id, member.group_id, member.from_directory, member.from_claim


def _unmarked_claim_groups(rows: RowBatch) -> set[str]:
    """Return the groups that a claim names and whose rows are not marked `from_claim`."""
    named = {member.group_id for member in rows.members if member.from_claim}
    for part in _chunks(named):
        named -= set(Group.objects.filter(pk__in=part, from_claim=True).values_list("pk", flat=True))
    return named


def _stale_claim_flags(ids: set[str]) -> set[str]:
    """Return the groups whose `from_claim` does not match their memberships, or whose row is missing or obsolete."""
    found = set[str]()
    for part in _chunks(ids):
        rows = Group.objects.filter(pk__in=part).values_list("pk", "in_directory", "from_claim", _named_by_claim())
        left = {*part} - {row[0] for row in rows}
        found |= {id for id, in_directory, from_claim, is_named in rows if from_claim != is_named or not (in_directory or from_claim)}
        found |= set(Membership.objects.filter(group_id__in=left, from_claim=True).values_list("group_id", flat=True))
    return found


def _refresh_claim_flags(ids: list[str]) -> None:
    """Update `from_claim` of groups.  Deletes groups without a record and without a claim."""
    Group.rows.bulk_create([Group(id=id, in_directory=False) for id in ids], ignore_conflicts=True)
    Group.rows.filter(pk__in=ids).update(from_claim=_named_by_claim())
    Group.rows.filter(pk__in=ids, in_directory=False, from_claim=False).delete()


def _named_by_claim() -> models.Exists:
    return models.Exists(Membership.objects.filter(group_id=models.OuterRef("pk"), from_claim=True))


def ids_after(model: type[models.Model], after: str, limit: int) -> list[str]:
    """Return the ids after `after` of rows that must have a record, in order."""
    try:
        return list(_backed_by_record(model).filter(pk__gt=after).order_by("pk").values_list("pk", flat=True)[:limit])
    finally:
        connection.close()


def _backed_by_record(model: type[models.Model]) -> Any:
    return model.objects.exclude(models.Q(in_directory=False) & models.Q(_named_by_claim())) if model is Group else model.objects.all()


def _chunks(ids: set[str]) -> Iterator[list[str]]:
    """Yield sorted batches, so that two processes that write the same rows cannot deadlock."""
    ordered = sorted(ids)
    return (ordered[start : start + BATCH_SIZE] for start in range(0, len(ordered), BATCH_SIZE))


@dataclass(frozen=True, slots=True)
class LastSeen:
    """Last use of a session: time (Unix seconds) and host."""

    seen_at: float
    host: str


def load_last_seen(ids: Sequence[str]) -> dict[str, LastSeen]:
    """Return the known last uses of these sessions.  Call in a thread."""
    try:
        rows = Session.objects.filter(pk__in=ids, last_seen_at__isnull=False).values_list("pk", "last_seen_at", "last_host")
        return {id: LastSeen(at.timestamp(), host) for id, at, host in rows if at is not None}
    finally:
        connection.close()


def write_last_seen(seen: Mapping[str, tuple[float, str]]) -> set[str]:
    """Write the last uses, by id of a session or service account: (Unix seconds, host).  Return the ids without a row.

    Call in a thread.  Raises BrokerError.
    """
    try:
        missing: set[str] = set()
        accounts = {id: at for id, at in seen.items() if id.startswith(ACCOUNT_PREFIX)}
        for part in _batches({id: at for id, at in seen.items() if id not in accounts}):
            missing |= _update_last_seen(Session, part)
        for part in _batches({id.removeprefix(ACCOUNT_PREFIX): at for id, at in accounts.items()}):
            missing |= {ACCOUNT_PREFIX + id for id in _update_last_seen(ServiceAccount, part)}
        return missing
    except Error as error:
        raise BrokerError(str(error)) from error
    finally:
        connection.close()


def _update_last_seen(model: type[models.Model], seen: Mapping[str, tuple[float, str]]) -> set[str]:
    """Update rows, to the second.  Return the ids without a row.

    Not by `bulk_update`, because it takes fifteen times the processor time, which would delay requests.
    """
    table, *names = (connection.ops.quote_name(name) for name in (model._meta.db_table, *LAST_SEEN_COLUMNS, "id"))
    # Another process may have written a later use.
    newer = f"({names[0]} IS NULL OR {names[0]} <= %s)"
    statement = f"UPDATE {table} SET {names[0]} = %s, {names[1]} = %s WHERE {names[2]} = %s AND {newer}"  # noqa: S608 - names of the model
    column = model._meta.get_field("last_seen_at")
    # Converted once for each second, because thousands of uses fall within a few seconds.
    seconds = {int(at) for at, _ in seen.values()}
    written = {second: column.get_db_prep_save(to_datetime(second), connection) for second in seconds}
    with transaction.atomic(), connection.cursor() as cursor:
        known = set(model.objects.filter(pk__in=seen).values_list("pk", flat=True))
        moments = ((id, written[int(seen[id][0])]) for id in known)
        cursor.executemany(statement, [(moment, seen[id][1][:255], id, moment) for id, moment in moments])
    return seen.keys() - known


def _batches(seen: Mapping[str, tuple[float, str]]) -> Iterator[dict[str, tuple[float, str]]]:
    entries = iter(seen.items())
    while part := dict(islice(entries, BATCH_SIZE)):
        yield part


def _upsert(model: type[models.Model], rows: list[models.Model]) -> None:
    fields = [field.name for field in model._meta.concrete_fields if not field.primary_key and field.name not in PRESERVED_COLUMNS]
    model.rows.bulk_create(rows, update_conflicts=True, unique_fields=["id"], update_fields=fields)


def _text(data: Any, key: str, max_length: int) -> str:
    value = data.get(key)
    return sanitize_text(value)[:max_length] if value else ""


def sanitize_text(value: Any) -> str:
    """Return text without NUL and lone surrogates, which PostgreSQL rejects, so that such a name does not fail the batch."""
    return str(value).replace("\0", "").encode(errors="replace").decode()


def is_storable(id: str) -> bool:
    """Return whether an id can be stored unchanged, because a changed id would be that of another object."""
    return len(id) <= MAX_ID_LENGTH and sanitize_text(id) == id


def to_datetime(seconds: Any) -> datetime | None:
    """Return the datetime of Unix seconds; None if the value is not a time between 1970 and the year 10000."""
    return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, int | float) and 0 < seconds < END_OF_TIME else None
