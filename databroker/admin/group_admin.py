"""Admin pages of groups, with their origin: a directory, a claim, or both."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db.models import Case, CharField, Count, IntegerField, OuterRef, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from config.issuers import applies_to_issuer
from config.options import Options
from config.provider_config import ProviderConfig
from config.settings.group_sources import describe_group_sources
from databroker.admin.read_only_admin import ReadOnlyAdmin
from databroker.broker_client import page_context
from databroker.models import Group, Membership, User

READ_ONLY_HELP = "Groups are read-only here: they come from {sources}, and rules (allowed_groups) use them."
BEARER_HELP = " Groups that exist only in bearer tokens are not listed."
EMPTY_HELP = "No groups yet from {sources}."
CLAIM_HELP = " The provider sends the claim in the ID token or userinfo response; some require a scope for it (idp_scopes)."
ORPHANED = "a directory that is no longer configured"
UNCONFIGURED_HELP = "No user has groups. Configure {ways}."


class OriginFilter(admin.SimpleListFilter):
    """Filter by origin."""

    title = "origin"
    parameter_name = "origin"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("claim", "a claim"), ("directory", "the directory")]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        filtered = {"claim": queryset.filter(from_claim=True), "directory": queryset.filter(in_directory=True)}
        return filtered.get(self.value() or "", queryset)


class GroupAdmin(ReadOnlyAdmin):
    """Admin page of groups."""

    list_display = ["id", "name", "email", "origin", "size"]
    list_filter = [OriginFilter]
    search_fields = ["id__holds", "name__holds", "email__holds"]
    ordering = ["name", "id"]
    fields = ["id", "name", "email", "origin", "people", "changes"]
    readonly_fields = ["origin", "people", "changes"]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        options = page_context(request).options
        return super().changelist_view(request, {"about": help_text(options, is_empty=not Group.objects.exists()), **(extra_context or {})})

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        options = page_context(request).options
        members = Membership.objects.filter(group_id=OuterRef("pk")).order_by().values("group_id").annotate(number=Count("pk"))
        size = Coalesce(Subquery(members.values("number")), 0, output_field=IntegerField())
        # Annotations, because the methods of columns receive the row and not the request.
        annotations = {
            "claim": Value(_describe_claims(options)),
            "directory": _group_providers(options, _describe_directory),
            "current_issuer": _group_providers(options, lambda provider: provider.issuer),
        }
        return super().get_queryset(request).annotate(size=size, **annotations)

    @admin.display(description="origin")
    def origin(self, group: Any) -> str:
        is_configured = applies_to_issuer(group.issuer, group.current_issuer)
        directory = group.directory if is_configured else f"the directory of {group.issuer}, which is no longer configured"
        return "; ".join([group.claim] * group.from_claim + [directory] * group.in_directory)

    @admin.display(description="members", ordering="size")
    def size(self, group: Any) -> int:
        return group.size

    @admin.display(description="members")
    def people(self, group: Group) -> SafeString:
        return self.row_links(group.members.order_by("email", "id"), self.changelist_url(User, groups__id__exact=group.pk))

    @admin.display(description="changes")
    def changes(self, group: Any) -> str:
        return READ_ONLY_HELP.format(sources=self.origin(group))


def help_text(options: Options, *, is_empty: bool) -> str:
    """Describe where groups come from and that they are read-only, or, without a source, what to configure."""
    claim = any(provider.groups_claim for provider in options.providers.values())
    directories = [_describe_directory(provider) for provider in options.providers.values() if _has_directory(provider)]
    sources = " and ".join([_describe_claims(options)] * bool(claim) + directories)
    if not sources:
        return UNCONFIGURED_HELP.format(ways=describe_group_sources(options))
    if is_empty:
        return EMPTY_HELP.format(sources=sources) + (CLAIM_HELP if claim else "")
    return READ_ONLY_HELP.format(sources=sources) + (BEARER_HELP if claim else "")


def membership_origin(from_claim: bool, from_directory: bool, user_id: str, options: Options) -> str:
    """Describe the origin of a user's membership in a group."""
    provider = options.providers.get(user_id.partition("/")[0], options.first_provider)
    return "; ".join([_describe_claims(options)] * from_claim + [_describe_directory(provider)] * from_directory)


def _describe_claims(options: Options) -> str:
    named = ((provider.groups_claim, provider.issuer) for provider in options.providers.values() if provider.groups_claim)
    return " and ".join(f"the claim “{claim}” of {issuer}" for claim, issuer in named)


def _group_providers(options: Options, describe: Callable[[ProviderConfig], str]) -> Any:
    """Return an expression for the description of the provider whose directory contains the group."""
    if options.identity_providers is None:
        return Value(describe(options.first_provider))
    cases = [When(id__startswith=each.record_id_prefix, then=Value(describe(each))) for each in options.providers.values()]
    return Case(*cases, default=Value(ORPHANED), output_field=CharField())


def _describe_directory(provider: ProviderConfig) -> str:
    if provider.directory_file:
        return f"directory_file of {provider.id}" if provider.is_entry else "directory_file"
    return f"{'SCIM' if provider.has_scim else 'the directory'} of {provider.issuer}"


def _has_directory(provider: ProviderConfig) -> bool:
    return provider.directory_file is not None or provider.has_group_records


def register(site: admin.AdminSite) -> None:
    site.register(Group, GroupAdmin)
