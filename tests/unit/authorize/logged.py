"""Decisions in the log, as the writer puts them there."""

from pathlib import Path
from typing import Any

from authorize.decision_log.decision_log import DecisionLogEntry, DecisionLogSettings
from authorize.decision_log.persistence import write_entries
from authorize.identity.identity_loader import IdentitySourceRecords
from authorize.models import LoggedDecision
from authorize.policy.decision import decide
from authorize.policy.identity import Identity
from authorize.route_settings import route_table
from databroker.records import SESSION, Record
from tests.support.options import make_options
from tests.unit.authorize.builders import NOW, request

APP = {"from": "https://app.example.com", "to": "http://up.example.com"}
POLICY: list[dict[str, Any]] = [
    {**APP, "prefix": "/open", "allow_public_unauthenticated_access": True},
    {**APP, "allowed_users": ["ann@corp.com"], "name": "Wages"},
]
CHECKSUM = "c0ffee"


def log_decision(
    directory: Path, request_id: str, identity: Identity | None, target: str = "/a", policy: Any = POLICY, **facts: Any
) -> LoggedDecision:
    options = make_options(directory, policy=policy)
    incoming = request(target, source_ip="192.0.2.1", **facts)
    decision = decide(incoming, identity, route_table(options), NOW)
    sources = IdentitySourceRecords(Record(SESSION, "s1", {}, 7, NOW - 90.0), None, None) if identity else None
    entry = DecisionLogEntry(request_id, incoming, decision, identity, 0.002, "192.0.2.1", decided_at=NOW, sources=sources)
    write_entries([(entry, DecisionLogSettings.from_options(options, CHECKSUM))])
    return LoggedDecision.objects.get(request_id=request_id)
