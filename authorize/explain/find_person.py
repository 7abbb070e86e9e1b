"""User lookup of the admin's explanations: the records of the user that an administrator names."""

import time
from dataclasses import dataclass

from asgiref.sync import async_to_sync

from authorize.client import AuthorizePageContext
from authorize.explain.invented_request import InventedPerson, described_identity
from authorize.explain.recorded_user import ACCOUNT_PREFIX, recorded_user
from authorize.policy.identity import Identity
from databroker.models import Session, User
from foundation.errors import BrokerError

NO_ACCOUNT = "Service account not found, or expired."
NO_USER = "Unknown user: evaluated with this identifier only."


@dataclass(frozen=True, slots=True)
class FoundPerson:
    """User found.  `note` says how the identity was obtained, where that matters."""

    identity: Identity | None
    note: str = ""


def found_person(written: str, own: AuthorizePageContext) -> FoundPerson:
    """Return the user with an e-mail address, `provider/subject`, subject or `service_account/name`; "" is nobody.

    Raises ValueError where several users have this address, and where the records cannot be read.
    """
    if not written:
        return FoundPerson(None)
    ids = _ids(written, own.options.first_provider.id)
    sessions = list(Session.objects.filter(user_id__in=ids).values_list("pk", flat=True))
    try:
        user = async_to_sync(recorded_user)(ids, own.broker, own.options, time.time(), sessions)
    except BrokerError as error:
        raise ValueError(f"The user's records cannot be read: {error}. Try again.") from error
    if user is not None:
        return FoundPerson(user.identity, user.note)
    note = NO_ACCOUNT if written.startswith(ACCOUNT_PREFIX) else NO_USER
    return FoundPerson(described_identity(InventedPerson(written), own.options), note)


def _ids(written: str, provider: str) -> list[str]:
    """Return the ids that an entry of `allowed_users` matches, and no other: an address is no part of an id, nor the other way round."""
    if "/" in written:
        return [written]
    if "@" in written:
        return list(User.objects.filter(email__iexact=written).values_list("pk", flat=True))
    return [f"{provider}/{written}"]
