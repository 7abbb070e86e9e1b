"""Granting, listing and revoking temporary access, with the audit entry first."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from config.options import Options
from databroker.audit_log import AuditAction
from databroker.models import AuditEntry
from databroker.records import ACCESS_GRANT, USER, UserRecord
from gateproject.management.broker_access import open_broker
from tests.support.options import MINIMAL, make_options
from tests.support.several_providers import several

pytestmark = pytest.mark.usefixtures("database")
ISSUER = MINIMAL["idp_provider_url"]
UPSTREAM = "http://127.0.0.1:9"
WIKI = {"from": "https://wiki.example.com", "to": UPSTREAM, "name": "wiki", "policy": [{"allow": {"granted": True}}]}
PAY = {"from": "https://pay.example.com", "to": UPSTREAM, "name": "pay", "allowed_groups": ["payroll"]}
TWIN = {**WIKI, "from": "https://twin.example.com", "name": "pay"}
PEOPLE = {"oidc/1": "Ann@corp.com", "oidc/2": "bob@corp.com", "oidc/3": "same@corp.com", "oidc/4": "same@corp.com"}
UNVERIFIED = (
    UserRecord("oidc/5", "mallory@corp.com", email_verified=False, issuer=ISSUER),
    UserRecord("oidc/6", "claimed@corp.com", claims={"email_verified": "false"}, issuer=ISSUER),
    UserRecord("oidc/7", "\u212aim@corp.com", issuer=ISSUER),  # KELVIN SIGN, which str.lower() makes a "k"
)
GIVE = ("create", "--user", "ann@corp.com", "--route", "wiki", "--for", "2h", "--reason", "an incident")


@pytest.fixture
def options(tmp_path: Path) -> Options:
    options = make_options(tmp_path, databroker_storage_type="database", policy=[WIKI, PAY, TWIN])
    asyncio.run(_fill(options))
    return options


async def _fill(options: Options) -> None:
    async with open_broker(options) as broker:
        for id, email in PEOPLE.items():
            await broker.put(USER, id, UserRecord(id, email, issuer=ISSUER).to_data())
        for record in UNVERIFIED:
            await broker.put(USER, record.id, record.to_data())


def run(options: Options, *arguments: Any) -> str:
    out = io.StringIO()
    with override_settings(GATE_OPTIONS=options, GATE_CONFIG_ERROR=None):
        call_command("grants", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue().strip()


def listed(options: Options) -> list[dict[str, Any]]:
    return json.loads(run(options, "list", "--json"))


def test_created_grants_are_listed_revoked_and_audited(options: Options) -> None:
    run(options, *GIVE)
    run(options, "create", "--user", "oidc/2", "--route", "policy[0]", "--for", "1d", "--reason", "on call")
    ann, bob = listed(options)
    assert (ann["user_id"], ann["user"], ann["route"], ann["is_effective"], ann["reason"]) == (
        "oidc/1",
        "Ann@corp.com",
        "wiki",
        True,
        "an incident",
    )
    assert ann["granted_by"].endswith("(command line)")
    assert ann["expires_at"] > ann["started_at"]
    assert "an incident" in run(options, "list")
    assert run(options, "revoke", "--id", ann["id"]) == "1 grant revoked"
    assert [each["id"] for each in listed(options)] == [bob["id"]]
    assert run(options, "revoke", "--user", "BOB@corp.com") == "1 grant revoked"
    assert listed(options) == []
    audited = list(AuditEntry.objects.order_by("id").values_list("action", "object_id"))
    assert audited == [(action, id) for action in ("grants temporary access", "revokes temporary access") for id in ("oidc/1", "oidc/2")]
    first = AuditEntry.objects.order_by("id").first()
    assert first is not None
    assert "wiki, until 20" in first.object_repr
    assert first.object_repr.endswith("Z: an incident")


def test_all_are_revoked_at_once(options: Options) -> None:
    run(options, *GIVE)
    run(options, "create", "--user", "oidc/2", "--route", "wiki", "--for", "1d", "--reason", "on call")
    assert run(options, "revoke", "--all") == "2 grants revoked"
    assert run(options, "revoke", "--all") == "0 grants revoked"
    assert run(options, "list") == ""


def test_an_ineffective_grant_is_marked(options: Options, tmp_path: Path) -> None:
    run(options, *GIVE)
    renamed = make_options(tmp_path, databroker_storage_type="database", policy=[{**WIKI, "name": "handbook"}])
    assert listed(renamed)[0]["is_effective"] is False
    assert "ineffective" in run(renamed, "list")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--user": "eve@corp.com"}, "no user who has"),
        ({"--user": "oidc/9"}, "no user who has"),
        ({"--user": ""}, "no user who has"),
        ({"--user": "same@corp.com"}, "several users"),
        ({"--user": "mallory@corp.com"}, "no user who has"),
        ({"--user": "claimed@corp.com"}, "no user who has"),
        ({"--user": "kim@corp.com"}, "no user who has"),
        ({"--route": "wages"}, "matches no route"),
        ({"--route": "pay"}, "matches several routes"),
        ({"--route": "policy[1]"}, "this route does not"),
        ({"--for": "31d"}, "30 days"),
        ({"--for": "0s"}, "30 days"),
        ({"--for": "soon"}, "must be a duration"),
        ({"--reason": " "}, "give a reason"),
        ({"--reason": "a\x1bb"}, "give a reason"),
    ],
)
def test_ungrantable_access_is_refused(options: Options, change: dict[str, str], message: str) -> None:
    ((name, value),) = change.items()
    arguments = list(GIVE)
    arguments[arguments.index(name) + 1] = value
    with pytest.raises(CommandError, match=message):
        run(options, *arguments)
    assert listed(options) == []


def test_user_with_unverified_address_is_granted_access_by_id(options: Options) -> None:
    arguments = [*GIVE]
    arguments[2] = "oidc/5"
    run(options, *arguments)
    assert [each["user_id"] for each in listed(options)] == ["oidc/5"]


@pytest.mark.parametrize("named", ["ann@shared.example", "corp/1", "partner/7", "verified_email/ann@shared.example"])
def test_linked_accounts_are_one_user_granted_access_once(tmp_path: Path, named: str) -> None:
    made = several("corp", "partner")
    linked = [{**each, "domains": ["shared.example"], "link_by": "verified_email"} for each in made["identity_providers"]]
    settings = {**made, "identity_providers": linked, "databroker_storage_type": "database", "policy": [WIKI]}
    options = make_options(tmp_path, **settings)

    async def fill() -> None:
        async with open_broker(options) as broker:
            for id, issuer in (("corp/1", "https://idp.corp.example"), ("partner/7", "https://idp.partner.example")):
                await broker.put(USER, id, UserRecord(id, "Ann@Shared.example", True, issuer=issuer).to_data())

    asyncio.run(fill())
    run(options, "create", "--user", named, *GIVE[3:])
    (granted,) = listed(options)
    assert granted["user_id"] == "verified_email/ann@shared.example"
    assert run(options, "revoke", "--user", "ann@shared.example") == "1 grant revoked"
    assert listed(options) == []
    with pytest.raises(CommandError, match="no user"):
        run(options, "create", "--user", "verified_email/bob@shared.example", *GIVE[3:])


def test_address_of_unauthorized_provider_selects_no_user(tmp_path: Path) -> None:
    options = make_options(tmp_path, **several("corp", "partner"), databroker_storage_type="database", policy=[WIKI])

    async def fill() -> None:
        async with open_broker(options) as broker:
            for id in ("corp/1", "partner/7"):
                issuer = f"https://idp.{id.partition('/')[0]}.example"
                await broker.put(USER, id, UserRecord(id, "ceo@corp.example", True, "ceo@corp.example", issuer=issuer).to_data())

    asyncio.run(fill())
    run(options, "create", "--user", "ceo@corp.example", *GIVE[3:])
    run(options, "create", "--user", "partner/7", *GIVE[3:])
    assert {each["user_id"]: each["user"] for each in listed(options)} == {"corp/1": "ceo@corp.example", "partner/7": ""}

    async def as_of_an_earlier_release() -> None:
        async with open_broker(options) as broker:
            record = await broker.get(ACCESS_GRANT, "partner/7")
            assert record is not None
            await broker.put(ACCESS_GRANT, "partner/7", {**record.data, "display_name": "ceo@corp.example"}, expires=record.expires)

    asyncio.run(as_of_an_earlier_release())
    assert run(options, "revoke", "--user", "ceo@corp.example") == "1 grant revoked"
    assert [each["user_id"] for each in listed(options)] == ["partner/7"]


def test_unheld_access_is_not_revoked(options: Options) -> None:
    run(options, *GIVE)
    with pytest.raises(CommandError, match="no temporary access for none"):
        run(options, "revoke", "--id", listed(options)[0]["id"], "none")
    assert len(listed(options)) == 1


def test_subsequent_failure_is_audited(options: Options) -> None:
    run(options, *GIVE)
    with pytest.raises(CommandError, match="lasts longer"):
        run(options, *GIVE[:-3], "1h", "--reason", "again")
    assert [entry.action for entry in AuditEntry.objects.order_by("id")][1:] == [
        AuditAction.GRANT_ACCESS,
        AuditAction.GRANT_ACCESS.failure,
    ]


def test_nothing_is_granted_without_audit_log(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import OperationalError

    def broken(*args: Any, **more: Any) -> None:
        raise OperationalError("the disk is full")

    monkeypatch.setattr(AuditEntry, "save", broken)
    with pytest.raises(CommandError, match="audit log write failed"):
        run(options, *GIVE)
    assert listed(options) == []
