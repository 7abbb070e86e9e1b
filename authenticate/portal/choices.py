"""Choices of a person in the portal: favourites, and what they opened; kept with the person, so they outlive each session."""

from collections.abc import Callable
from dataclasses import replace

from databroker.client import BrokerClient
from databroker.records import PORTAL, PortalChoices, Record, SessionRecord
from databroker.store.base import VersionConflict
from foundation.errors import BrokerError

KEPT = 400 * 24 * 3600.0  # seconds after the last change
MOST_FAVOURITES, MOST_OPENED = 200, 8
TRIES = 5


async def choices_of(broker: BrokerClient, session: SessionRecord) -> PortalChoices:
    return _of(session, await broker.get(PORTAL, session.user_id))


async def change(broker: BrokerClient, session: SessionRecord, edit: Callable[[PortalChoices], PortalChoices], now: float) -> None:
    """Write what `edit` makes of the choices; two browsers of a person lose nothing of each other's.  BrokerError."""
    for _ in range(TRIES):
        record = await broker.get(PORTAL, session.user_id)
        before = _of(session, record)
        if (after := edit(before)) == before:
            return
        version = record.version if record is not None else 0
        try:
            await broker.put(PORTAL, session.user_id, after.to_data(), expires=now + KEPT, only_if_version=version)
        except VersionConflict:
            continue
        return
    raise BrokerError("the portal settings changed concurrently too often")


def toggled(key: str) -> Callable[[PortalChoices], PortalChoices]:
    """Make an application a favourite, or none any more."""

    def edit(choices: PortalChoices) -> PortalChoices:
        if key in choices.favourites:
            return replace(choices, favourites=tuple(each for each in choices.favourites if each != key))
        return replace(choices, favourites=(*choices.favourites, key)[-MOST_FAVOURITES:])

    return edit


def opened(key: str) -> Callable[[PortalChoices], PortalChoices]:
    def edit(choices: PortalChoices) -> PortalChoices:
        return replace(choices, opened=(key, *(each for each in choices.opened if each != key))[:MOST_OPENED])

    return edit


def _of(session: SessionRecord, record: Record | None) -> PortalChoices:
    """None of another issuer's person of the same id."""
    nothing = PortalChoices(issuer=session.vouched_by)
    try:
        found = PortalChoices.from_record(record) if record is not None else nothing
    except TypeError:
        return nothing
    return found if found.issuer == session.vouched_by else nothing
