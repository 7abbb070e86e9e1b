"""User entry: an item of `allowed_users`, `user` or `admin_allowed_users`."""

from dataclasses import dataclass
from enum import Enum

from config.routes.route_bearer_tokens import ISSUER_SEPARATOR
from foundation.email_address import canonical_email


class EntryKind(Enum):
    EMAIL = "an e-mail address"
    USER_ID = "a user id"
    SUBJECT = "a subject of the configured provider"


@dataclass(frozen=True, slots=True)
class UserEntry:
    """User entry.  `name` is compared: the canonical address, the complete user id, or the subject."""

    kind: EntryKind
    name: str

    @property
    def provider(self) -> str:
        """Return the provider of a user id, or the URL of an external issuer."""
        if self.kind is not EntryKind.USER_ID:
            return ""
        return self.name.partition(ISSUER_SEPARATOR if self.is_issuer_qualified else "/")[0]

    @property
    def is_issuer_qualified(self) -> bool:
        return self.kind is EntryKind.USER_ID and self.name.startswith(("https://", "http://"))


# enforcement-point: Identity: Users named in rules
def parse_user_entry(written: str) -> UserEntry:
    """Parse a user entry by its form alone, so that no user can change its meaning by choosing a subject or an address.

    An entry with a slash is a user id, else with an "@" an e-mail address, else a subject.  Raises ValueError if it can match no user.
    """
    if "/" in written:
        entry = UserEntry(EntryKind.USER_ID, written)
        if not entry.provider or written == entry.provider or not written.removeprefix(entry.provider)[1:]:
            how = f"https://issuer{ISSUER_SEPARATOR}sub" if entry.is_issuer_qualified else "provider/sub"
            raise ValueError(f"{written!r} must have a provider and a subject. Write {how}")
        return entry
    if "@" in written:
        if not (email := canonical_email(written)):
            raise ValueError(f"{written} is not an e-mail address. Write a subject with an @ as provider/{written}")
        return UserEntry(EntryKind.EMAIL, email)
    if not written:
        raise ValueError("matches no user")
    return UserEntry(EntryKind.SUBJECT, written)
