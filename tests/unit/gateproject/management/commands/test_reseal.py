"""Rotation of shared_secret with the `reseal` command."""

import asyncio
import base64
import io
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from config.options import Options
from databroker.records import SESSION
from databroker.store.factory import open_store
from tests.support.options import SHARED_SECRET, make_options

NEW = base64.b64encode(b"n" * 32).decode()


def reseal(options: Options) -> str:
    output = io.StringIO()
    with override_settings(GATE_OPTIONS=options, GATE_CONFIG_ERROR=None):
        call_command("reseal", stdout=output)
    return output.getvalue()


async def ids(options: Options, *puts: str) -> list[str]:
    store = open_store(options)
    for id in puts:
        await store.put(SESSION, id, {"id": id})
    found = [record.id for record in await store.page(SESSION, "", 1000)]
    await store.close()
    return found


@pytest.mark.usefixtures("database")
def test_every_record_is_sealed_with_the_first_key(tmp_path: Path) -> None:
    def options(*secrets: str) -> Options:
        return make_options(tmp_path, databroker_storage_type="database", shared_secret=list(secrets))

    written = asyncio.run(ids(options(SHARED_SECRET), *(f"{number:03}" for number in range(250))))
    output = reseal(options(NEW, SHARED_SECRET))
    assert "session: 200 re-encrypted" in output
    assert "session: done, 250 re-encrypted, 0 unreadable" in output
    assert "session: done, 0 re-encrypted" in reseal(options(NEW, SHARED_SECRET))
    assert asyncio.run(ids(options(NEW))) == written
    with pytest.raises(CommandError, match="encrypted with another shared_secret"):
        reseal(options(SHARED_SECRET))


def test_in_memory_there_is_nothing_to_seal(tmp_path: Path) -> None:
    assert "not encrypted" in reseal(make_options(tmp_path))
