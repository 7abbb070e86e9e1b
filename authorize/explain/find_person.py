"""Person lookup for explanations: whom an administrator means, and what gate would know of them if they asked now."""

import time
from dataclasses import dataclass

from asgiref.sync import async_to_sync
from django.db.models import F, Q
from django.utils import timezone

from authorize.explain.invented_request import InventedPerson, described_identity
from authorize.identity.account_identity import PROVIDER
from authorize.identity.service_accounts import identity_of_account
from authorize.page_context import AuthorizePageContext
from authorize.policy.identity import Identity, IdentitySources
from config.options import Options
from databroker.models import Membership, User

ACCOUNT_PREFIX = f"{PROVIDER}/"


@dataclass(frozen=True, slots=True)
class FoundPerson:
    """Person found.  `note` says how the identity was come by, where that matters."""

    identity: Identity | None
    sources: IdentitySources | None = None
    note: str = ""


def found_person(written: str, own: AuthorizePageContext) -> FoundPerson:
    """Person by an e-mail address, `provider/subject` or `service_account/name`; "" is nobody.

    With a living session of theirs it is the identity that their next request would have, made of the same records.
    """
    if not written:
        return FoundPerson(None)
    if written.startswith(ACCOUNT_PREFIX):
        if (account := async_to_sync(identity_of_account)(written, own.broker, time.time())) is not None:
            return FoundPerson(account)
        note = "There is no such service account, or it has ended."
        return FoundPerson(described_identity(InventedPerson(written), own.options), note=note)
    known = _known(written, own.options)
    session = known and known.sessions.filter(expires__gt=timezone.now()).order_by("-since").first()
    if session:
        identity = async_to_sync(own.authorize.identity_of_session)(session.pk)
        if identity is not None:
            return FoundPerson(identity, identity.sources)
    groups = _groups_of(known, own.options) if known else ()
    note = (
        "No session of this person is alive: judged by the e-mail address and the directory's groups, without claims."
        if known
        else "gate knows nobody of this name: judged as somebody with nothing but that."
    )
    return FoundPerson(described_identity(InventedPerson(written, groups), own.options), note=note)


def _known(written: str, options: Options) -> User | None:
    """Return the row of the user who signed in last: the table has no address by which a user may not be found."""
    found = User.objects.filter(_named(written, options.first_provider.id))
    return found.order_by(F("last_sign_in").desc(nulls_last=True)).first()


def _groups_of(user: User, options: Options) -> tuple[str, ...]:
    """Groups by the ids that rules compare."""
    prefix = options.records_prefix_of(user.pk)
    members = Membership.objects.filter(user=user).values_list("group_id", "by_directory")
    return tuple(group.removeprefix(prefix) if by_directory else group for group, by_directory in members)


def _named(written: str, provider: str) -> Q:
    """By what an entry of `allowed_users` would compare, and nothing else: an address is no part of an id, nor the other way round."""
    if "/" in written:
        return Q(pk=written)
    return Q(email__iexact=written) if "@" in written else Q(pk=f"{provider}/{written}")
