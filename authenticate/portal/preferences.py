"""Choices of a person in the portal: favourites, and what they opened; kept with the person, so they outlive each session."""

from collections.abc import Callable
from dataclasses import replace

from databroker.broker_client import BrokerClient, Edited, update
from databroker.records import PORTAL_PREFERENCES, PortalChoices, Record, SessionRecord

RETENTION_SECONDS = 400 * 24 * 3600.0  # seconds after the last change
MAX_FAVOURITES, MAX_RECENT = 200, 8


async def load_preferences(broker: BrokerClient, session: SessionRecord) -> PortalChoices:
    return _of(session, await broker.get(PORTAL_PREFERENCES, session.user_id))


async def update_preferences(
    broker: BrokerClient, session: SessionRecord, edit: Callable[[PortalChoices, str], PortalChoices], key: str, now: float
) -> None:
    """Write what `edit` makes of the choices for the application `key`; two browsers of a person lose nothing of each other's.
    BrokerError.
    """

    def edited(record: Record | None) -> Edited | None:
        before = _of(session, record)
        after = edit(before, key)
        return (after.to_data(), now + RETENTION_SECONDS) if after != before else None

    await update(broker, PORTAL_PREFERENCES, session.user_id, edited)


def toggle_favourite(choices: PortalChoices, key: str) -> PortalChoices:
    """Make an application a favourite, or none any more."""
    if key in choices.favourites:
        return replace(choices, favourites=tuple(each for each in choices.favourites if each != key))
    return replace(choices, favourites=(*choices.favourites, key)[-MAX_FAVOURITES:])


def record_opened(choices: PortalChoices, key: str) -> PortalChoices:
    return replace(choices, opened=(key, *(each for each in choices.opened if each != key))[:MAX_RECENT])


def _of(session: SessionRecord, record: Record | None) -> PortalChoices:
    """None of another issuer's person of the same id."""
    found = PortalChoices.parse(record) if record is not None else None
    return found if found is not None and found.issuer == session.vouched_by else PortalChoices(issuer=session.vouched_by)
