"""Portal preferences: favourites and recently opened applications, stored per user across sessions."""

from collections.abc import Callable
from dataclasses import replace

from databroker.broker_client import BrokerClient, Edited, update
from databroker.records import PORTAL_PREFERENCES, PortalPreferences, Record, SessionRecord

RETENTION_SECONDS = 400 * 24 * 3600.0  # after the last change
MAX_FAVOURITES, MAX_RECENT = 200, 8


async def load_preferences(broker: BrokerClient, session: SessionRecord) -> PortalPreferences:
    return _parse(session, await broker.get(PORTAL_PREFERENCES, session.user_id))


async def update_preferences(
    broker: BrokerClient, session: SessionRecord, edit: Callable[[PortalPreferences, str], PortalPreferences], key: str, now: float
) -> None:
    """Apply `edit` to the preferences for the application `key`.  Concurrent changes of two browsers are merged.  Raises BrokerError."""

    def apply(record: Record | None) -> Edited | None:
        before = _parse(session, record)
        after = edit(before, key)
        return (after.to_data(), now + RETENTION_SECONDS) if after != before else None

    await update(broker, PORTAL_PREFERENCES, session.user_id, apply)


def toggle_favourite(choices: PortalPreferences, key: str) -> PortalPreferences:
    """Add an application to the favourites, or remove it."""
    if key in choices.favourites:
        return replace(choices, favourites=tuple(each for each in choices.favourites if each != key))
    return replace(choices, favourites=(*choices.favourites, key)[-MAX_FAVOURITES:])


def record_opened(choices: PortalPreferences, key: str) -> PortalPreferences:
    return replace(choices, recent=(key, *(each for each in choices.recent if each != key))[:MAX_RECENT])


def _parse(session: SessionRecord, record: Record | None) -> PortalPreferences:
    """Return the stored preferences, or empty ones if they belong to a user of another issuer with the same id."""
    preferences = PortalPreferences.parse(record) if record is not None else None
    return (
        preferences
        if preferences is not None and preferences.issuer == session.effective_issuer
        else PortalPreferences(issuer=session.effective_issuer)
    )
