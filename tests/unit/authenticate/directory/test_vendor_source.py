"""A directory with its credentials: what it answers may have any shape, and a sign-in does not wait for it for long."""

import pytest

from authenticate.directory import vendor_source as source_module
from authenticate.directory.snapshot import DirectoryError, TimeBudget
from foundation.errors import ProviderError
from tests.support.fake_api import Answer, as_json


async def test_requests_keep_to_idp_qps(staged) -> None:
    stage = await staged("okta", idp_qps=0.01)
    run = await stage.read()
    assert run.error == ""
    assert len(stage.slept) == run.requests - 1


@pytest.mark.parametrize("document", [[None], [[]], ["x"], [{"id": "1", "profile": []}]])
async def test_an_unexpected_form_is_an_error_and_no_crash(staged, document: object) -> None:
    stage = await staged("okta")
    stage.directory.fault = lambda request: as_json(document)
    with pytest.raises(DirectoryError):
        await stage.source.fetch(TimeBudget(deadline=float("inf")))
    with pytest.raises(ProviderError):
        await stage.source.look_up("okta/1", "")


async def test_a_look_up_tries_once_and_has_an_end(staged, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await staged("okta")
    stage.directory.fault = lambda request: as_json({}, 500)
    with pytest.raises(ProviderError):
        await stage.source.look_up("okta/00u101", "")
    assert len(stage.directory.requests) == 1
    assert stage.slept == []
    stage.directory.fault = lambda request: Answer(never=True)
    monkeypatch.setattr(source_module, "LOOK_UP_TIMEOUT", 0.02)
    with pytest.raises(ProviderError, match="took longer"):
        await stage.source.look_up("okta/00u101", "")
