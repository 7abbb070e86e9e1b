"""Is a question read as it was meant?"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from authorize.explain.explain_form import NO_ACCOUNT, NO_USER, ExplainForm, resolve_user
from authorize.explain.recorded_user import NO_SESSION, RecordedUser
from databroker.models import Session, User
from databroker.records import SESSION
from foundation.errors import BrokerError
from tests.support.database import row
from tests.support.options import make_options
from tests.unit.authorize.broker import BreakableBroker


def test_a_question_needs_a_request_or_a_url() -> None:
    assert not ExplainForm({}).is_submitted
    assert not ExplainForm({"user": "ann@corp.com"}).is_submitted
    assert ExplainForm({"request": " a1 "}).request == "a1"
    assert ExplainForm({"url": "https://a.org"}).is_submitted
    with pytest.raises(ValueError, match="request, or a URL"):
        ExplainForm({"user": "ann@corp.com"}).explain(None)
    with pytest.raises(AttributeError):
        _ = ExplainForm().nothing


@pytest.fixture
def broker(database: None, monkeypatch: pytest.MonkeyPatch) -> BreakableBroker:
    monkeypatch.setattr("authorize.explain.explain_form.time", SimpleNamespace(time=lambda: 1500.0))
    broker = BreakableBroker(lambda: 1500.0)
    async_to_sync(broker.sign_in)(claims={"team": "blue"})
    async_to_sync(broker.join)("oidc/1", "sales")
    row(User, id="oidc/1", email="Ann@corp.com")
    row(Session, id="s1", user_id="oidc/1", started_at=timezone.now(), expires_at=timezone.now())
    return broker


@pytest.fixture
def find(broker: BreakableBroker, tmp_path: Path) -> Callable[[str], RecordedUser]:
    options = make_options(tmp_path)
    return lambda written: resolve_user(written, SimpleNamespace(broker=broker, options=options))


@pytest.mark.parametrize("written", ["ann@corp.com", "ANN@CORP.COM", "oidc/1", "1"])
def test_user_with_live_session_has_access_of_next_request(find: Callable[[str], RecordedUser], written: str) -> None:
    found = find(written)
    assert found.identity is not None
    assert (found.identity.groups, dict(found.identity.claims), found.note) == (("sales",), {"team": ("blue",)}, "")
    assert found.identity.sources is not None
    assert set(found.identity.sources.modified_at) >= {"session", "user"}


def test_user_without_session_has_access_of_next_sign_in(find: Callable[[str], RecordedUser], broker: BreakableBroker) -> None:
    async_to_sync(broker.delete)(SESSION, "s1")
    found = find("ann@corp.com")
    assert found.identity is not None
    assert (found.identity.verified_email, found.identity.groups, found.note) == ("ann@corp.com", ("sales",), NO_SESSION)


@pytest.mark.parametrize(("written", "note"), [("eve@corp.com", NO_USER), ("oidc/9", NO_USER), ("service_account/ci", NO_ACCOUNT)])
def test_a_user_without_records_has_nothing_but_the_name(find: Callable[[str], RecordedUser], written: str, note: str) -> None:
    found = find(written)
    assert found.identity is not None
    assert (found.identity.group_ids, found.note) == (frozenset(), note)


def test_empty_name_is_anonymous(find: Callable[[str], RecordedUser]) -> None:
    assert find("") == RecordedUser(None)


def test_several_users_with_one_address_are_listed(find: Callable[[str], RecordedUser], broker: BreakableBroker) -> None:
    async_to_sync(broker.sign_in)("s2", "oidc/2")
    row(User, id="oidc/2", email="ann@corp.com")
    with pytest.raises(ValueError, match="2 users match: oidc/1, oidc/2"):
        find("ann@corp.com")
    found = find("oidc/2")
    assert found.identity is not None
    assert found.identity.user_id == "oidc/2"


def test_records_that_cannot_be_read_are_a_problem_of_the_form(find: Callable[[str], RecordedUser], broker: BreakableBroker) -> None:
    broker.is_down = True
    with pytest.raises(ValueError, match="cannot be read: the data broker is down") as raised:
        find("ann@corp.com")
    assert not isinstance(raised.value, BrokerError)
