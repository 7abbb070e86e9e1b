"""Tables of the admin (a projection of the store's records), the audit log, and the tables of the store `database`.

Only databroker/projection/rows.py writes projected rows, with the manager `rows`.  They contain no tokens, and no claims, because the store
may encrypt them; databroker/admin/record_details.py reads claims from the store.  Foreign keys have no database constraint, because records
arrive in any order.
"""

from typing import Any

from django.db import models
from django.utils import timezone

from databroker.agent_records import SessionKind
from foundation.email_address import unambiguous_name

# "<provider>/<subject>"; OpenID Connect allows a subject of 255 characters.
MAX_ID_LENGTH = 320


class ProjectionQuerySet(models.QuerySet[Any]):
    """Read-only rows.  Writes raise TypeError, because they would change only the admin's copy of a record."""

    def update(self, **values: object) -> int:
        raise TypeError(_read_only_message(self.model))

    def delete(self) -> tuple[int, dict[str, int]]:
        raise TypeError(_read_only_message(self.model))

    def bulk_create(self, *arguments: Any, **options: Any) -> list[Any]:
        raise TypeError(_read_only_message(self.model))

    def bulk_update(self, *arguments: Any, **options: Any) -> int:
        raise TypeError(_read_only_message(self.model))


class ProjectedRecord(models.Model):
    """Row of a record in the data broker; `change_with` describes how to change the record."""

    change_with = "use `gate sync`, or let the user sign in"

    objects = ProjectionQuerySet.as_manager()
    rows = models.Manager()

    class Meta:
        abstract = True

    def save_base(self, *arguments: Any, **options: Any) -> None:
        """Raise TypeError.  `save` and `loaddata` call this method."""
        raise TypeError(_read_only_message(type(self)))

    def delete(self, *arguments: Any, **options: Any) -> tuple[int, dict[str, int]]:
        raise TypeError(_read_only_message(type(self)))


def _read_only_message(model: Any) -> str:
    return f"the table of {model._meta.verbose_name_plural} is a copy of the data broker's records: {model.change_with}"


class Group(ProjectedRecord):
    """Group with a directory record (`name`, `email`, and `issuer` of its users), in a claim, or both."""

    id = models.CharField(primary_key=True, max_length=MAX_ID_LENGTH)
    name = models.CharField(max_length=255, blank=True)
    email = models.CharField("e-mail", max_length=255, blank=True)
    in_directory = models.BooleanField(default=True)
    issuer = models.CharField(max_length=512, blank=True, default="")
    # In no record: derived from memberships.
    from_claim = models.BooleanField(default=False)

    class Meta:
        indexes = [models.Index(fields=["name", "id"], name="group_by_name")]

    def __str__(self) -> str:
        return self.name or self.id


class User(ProjectedRecord):
    """User who signed in, is in the directory, or both; `id` is "<provider>/<subject>".

    `email` is verified, and its domain is one that the provider may assert.  Any other address is `unauthoritative_email`, which never
    identifies a user.
    """

    id = models.CharField(primary_key=True, max_length=MAX_ID_LENGTH)
    email = models.CharField("e-mail", max_length=255, blank=True)
    unauthoritative_email = models.CharField(max_length=255, blank=True, default="")
    name = models.CharField(max_length=255, blank=True)
    last_sign_in_at = models.DateTimeField("last sign-in", null=True, blank=True)
    groups = models.ManyToManyField(Group, through="Membership", related_name="members")

    class Meta:
        indexes = [
            models.Index(fields=["email", "id"], name="user_by_email"),
            models.Index(fields=["name"], name="user_by_name"),
            models.Index(fields=["last_sign_in_at"], name="user_by_last_sign_in"),
        ]

    def __str__(self) -> str:
        return unambiguous_name(self.email, self.name, self.id)


class Membership(ProjectedRecord):
    """Membership of a user in a group, from the directory, from the claim of the last sign-in, or both.

    A membership from the directory outlives the row of its group, so that a group that is missing in one sync returns with its members.
    """

    user = models.ForeignKey(User, models.DO_NOTHING, db_constraint=False)
    group = models.ForeignKey(Group, models.DO_NOTHING, db_constraint=False)
    from_directory = models.BooleanField(default=True)
    from_claim = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "group"], name="one_membership_a_user_and_group")]
        indexes = [models.Index(fields=["group"], name="claimed_membership_by_group", condition=models.Q(from_claim=True))]


class Session(ProjectedRecord):
    change_with = "use `gate end-sessions` or the admin's actions"

    id = models.CharField(primary_key=True, max_length=MAX_ID_LENGTH)
    user = models.ForeignKey(User, models.DO_NOTHING, null=True, db_constraint=False, related_name="sessions")
    started_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    client_address = models.CharField(max_length=64, blank=True)
    user_agent = models.CharField(max_length=512, blank=True)
    kind = models.CharField(max_length=16, default=SessionKind.BROWSER, choices=[(kind.value, kind.value) for kind in SessionKind])
    # Of an OAuth client.
    client_id = models.CharField("OAuth client", max_length=512, blank=True, default="")
    resource = models.CharField("MCP server", max_length=1024, blank=True, default="")
    scopes = models.TextField(blank=True, default="")
    # In no record, because a change on each request would flood the change stream.
    last_seen_at = models.DateTimeField("last seen", null=True, blank=True)
    last_host = models.CharField(max_length=255, blank=True)

    class Meta:
        # No index on `last_seen_at` and `last_host`: they are written every few seconds, and sorting 100,000 rows is fast.
        indexes = [
            models.Index(fields=["-started_at", "id"], name="session_by_started_at"),
            models.Index(fields=["expires_at"], name="session_by_expires_at"),
        ]

    def __str__(self) -> str:
        return self.id


class ConnectedAccount(ProjectedRecord):
    """Account of a user at a third-party MCP server.  `usable_until` is None while the server renews its tokens."""

    change_with = "use the admin's action, or the API"

    id = models.CharField(primary_key=True, max_length=MAX_ID_LENGTH)
    user = models.ForeignKey(User, models.DO_NOTHING, null=True, db_constraint=False, related_name="connected_accounts")
    resource = models.CharField("MCP server", max_length=1024, blank=True)
    server_fingerprint = models.CharField(max_length=64, blank=True)
    connected_at = models.DateTimeField(null=True)
    refreshed_at = models.DateTimeField("last refreshed", null=True)
    usable_until = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["-connected_at", "id"], name="account_by_connected_at")]

    def __str__(self) -> str:
        return self.resource


class ServiceAccount(ProjectedRecord):
    change_with = "use `gate service-account`"

    id = models.CharField("name", primary_key=True, max_length=63)
    groups = models.TextField(blank=True)
    created_at = models.DateTimeField(null=True)
    created_by = models.CharField(max_length=255, blank=True)
    rotated_at = models.DateTimeField("last new secret", null=True)
    expires_at = models.DateTimeField(null=True)
    permissions = models.TextField(blank=True, default="")
    # In no record, as with sessions.
    last_seen_at = models.DateTimeField("last used", null=True, blank=True)
    last_host = models.CharField(max_length=255, blank=True)

    class Meta:
        indexes = [models.Index(fields=["created_by"], name="service_account_by_creator")]

    def __str__(self) -> str:
        return self.id


class DirectoryRun(ProjectedRecord):
    """Sync of a whole directory; the latest few hundred of each directory are retained."""

    change_with = "each directory sync writes one"

    id = models.CharField(primary_key=True, max_length=64)
    source = models.CharField(max_length=255, blank=True)
    triggered_by = models.CharField(max_length=64, blank=True)
    started_at = models.DateTimeField(null=True, db_index=True)
    duration_seconds = models.FloatField(default=0.0)
    users = models.IntegerField(default=0)
    groups = models.IntegerField(default=0)
    added = models.IntegerField(default=0)
    changed = models.IntegerField(default=0)
    removed = models.IntegerField(default=0)
    requests = models.IntegerField(default=0)
    error = models.TextField(blank=True)

    class Meta:
        verbose_name = "directory sync"

    def __str__(self) -> str:
        return f"{self.started_at:%Y-%m-%d %H:%M:%S} UTC" if self.started_at else self.id

    @property
    def provider(self) -> str:
        """Id of the provider if several have directories (databroker/provider_scope.py), else ""."""
        return self.id.rpartition("/")[0]


class AppendOnly(models.QuerySet["AuditEntry"]):
    def update(self, **values: object) -> int:
        raise TypeError("audit log entries can't be changed")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise TypeError("audit log entries can't be deleted")


class AuditEntry(models.Model):
    """Action of an administrator, a provider, a service account, a command, or a user on their own sessions.

    It refers to no other table, because it outlives accounts, users and sessions.  `actor` is the display name of the actor, `actor_kind`
    an `ActorKind` (databroker/audit_log.py), and `actor_id` a unique id: of a user "<provider>/<subject>".  `object_repr` is the name of
    the object, `object_id` its id.
    """

    occurred_at = models.DateTimeField(default=timezone.now)
    actor = models.CharField(max_length=255)
    actor_kind = models.CharField(max_length=32, blank=True, default="")
    actor_id = models.CharField("id", max_length=MAX_ID_LENGTH, blank=True)
    client_address = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=255)
    object_type = models.CharField(max_length=64, blank=True)
    object_id = models.CharField(max_length=MAX_ID_LENGTH, blank=True)
    object_repr = models.CharField(max_length=255, blank=True)

    objects = AppendOnly.as_manager()

    class Meta:
        verbose_name = "audit log entry"
        verbose_name_plural = "audit log"
        indexes = [
            models.Index(fields=["occurred_at"], name="audit_by_time"),
            models.Index(fields=["object_id", "occurred_at"], name="audit_by_object"),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.action}"

    def save(self, *arguments: Any, **options: Any) -> None:
        if self.pk is not None:
            raise TypeError("audit log entries can't be changed")
        super().save(*arguments, **options)

    def delete(self, *arguments: Any, **options: Any) -> tuple[int, dict[str, int]]:
        raise TypeError("audit log entries can't be deleted")


class StoredRecord(models.Model):
    """Record of the store `database`.  Only databroker/store/database.py uses this table and the two below.

    A deleted record remains as a tombstone for a while, so that the change stream reports the deletion.
    """

    type = models.CharField(max_length=64)
    record_id = models.TextField()
    version = models.BigIntegerField(unique=True)
    modified_at = models.FloatField()
    expires_at = models.FloatField(null=True, db_index=True)
    is_deleted = models.BooleanField(default=False)
    data = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["type", "record_id"], name="one_stored_record_a_type_and_id")]


class StoreState(models.Model):
    """State of the store `database`: one row that every writer locks, so that versions become visible in order."""

    version = models.BigIntegerField()
    compacted_version = models.BigIntegerField()
    epoch = models.CharField(max_length=128)
    server_version = models.CharField(max_length=64)


class StoredLease(models.Model):
    name = models.CharField(primary_key=True, max_length=255)
    token = models.CharField(max_length=64)
    expires_at = models.FloatField()
