"""The admin's pages about the groups of a directory; and where groups are from, where there is none."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from config.groups.authorize import claimed_groups
from databroker.admin import ReadOnlyAdmin
from databroker.models import Group, Membership, User
from databroker.page_context import page_context

NO_DIRECTORY = "The groups of a directory stand here, and none has been read (directory_file, SCIM, or the provider's own directory)."
CLAIMED = "Groups of the claim “{}” count all the same: rules match them, and they stand on the page of each session."
UNCLAIMED = "No claim counts as groups either (groups_claim)."


class GroupAdmin(ReadOnlyAdmin):
    """Groups of the directory."""

    list_display = ["id", "name", "email", "size"]
    search_fields = ["id__holds", "name__holds", "email__holds"]
    ordering = ["name", "id"]
    fields = ["id", "name", "email", "people"]
    readonly_fields = ["people"]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not Group.objects.exists():
            claim = claimed_groups(page_context(request).options)
            self.message_user(request, f"{NO_DIRECTORY} {CLAIMED.format(claim) if claim else UNCLAIMED}")
        return super().changelist_view(request, extra_context)

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        members = Membership.objects.filter(group_id=OuterRef("pk")).order_by().values("group_id").annotate(number=Count("pk"))
        size = Coalesce(Subquery(members.values("number")), 0, output_field=IntegerField())
        return super().get_queryset(request).annotate(size=size)

    @admin.display(description="members", ordering="size")
    def size(self, group: Any) -> int:
        return group.size

    @admin.display(description="members")
    def people(self, group: Group) -> SafeString:
        return self.links(group.members.order_by("email", "id"), self.list_of(User, groups__id__exact=group.pk))


def register(site: admin.AdminSite) -> None:
    site.register(Group, GroupAdmin)
