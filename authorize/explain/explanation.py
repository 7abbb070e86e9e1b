"""Explanation of a decision for administrators, of a simulated request or from the decision log."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from authorize.decision_log.decision_snapshot import identity_from_snapshot, parse_request_snapshot
from authorize.identity.client_certificates import ClientCertificates
from authorize.policy import decision_text
from authorize.policy.decision import Decision, decide
from authorize.policy.identity import Identity
from authorize.policy.policy_request import PolicyRequest
from authorize.policy.route_table import RouteTable
from authorize.route_settings import default_ports, reserved_hosts
from config.options import Options
from foundation.errors import BadRequest
from foundation.readiness import format_utc

Explanation = dict[str, Any]

CONFIG_CHANGED = "The configuration has changed since: the routes shown are the current ones."


def explain(
    request: PolicyRequest,
    identity: Identity | None,
    options: Options,
    table: RouteTable,
    now: float,
) -> Explanation:
    """Explain a request, decided now by the table and rules that decide every request."""
    decision: Decision | None = None
    try:
        route = table.match(request)
        request = ClientCertificates().with_verification(request, route.client_ca if route else None, now)
        decision = decide(request, identity, table, now)
        reason = str(decision_text.user_message(decision))
    except BadRequest as error:
        reason = f"Invalid URL: {error.operator_message}."
    return {
        **_request_section(request, identity, options, now),
        "rules": decision_text.trace_rows_with_decisive(decision) if decision else [],
        "route": decision.compiled_route.id if decision and decision.compiled_route else None,
        "allowed": decision is not None and decision.is_allowed,
        "outcome": decision.outcome.value if decision else "bad request",
        "reason": reason,
        "remedies": decision_text.remedies(decision) if decision else [],
        "data": ages(identity.sources.modified_at if identity and identity.sources else {}, now),
        "note": _note(request, options),
    }


def explain_logged(row: Any, options: Options, configuration: str) -> Explanation:
    """Explain a LoggedDecision from its stored trace.

    Only the mismatches of earlier routes are computed from the current configuration.
    """
    facts = json.loads(row.snapshot)
    now = row.decided_at.timestamp()
    notes = [] if row.configuration == configuration else [CONFIG_CHANGED]
    if "truncated" in facts["request"]:
        notes.append(f"Truncated in the log: {facts['request']['truncated']}.")
    return {
        "request_id": row.request_id,
        **_request_section(parse_request_snapshot(facts["request"]), identity_from_snapshot(facts.get("identity")), options, now),
        "client_address": row.client_address,
        "rules": facts.get("rules", []),
        "route": row.route_id or None,
        "route_name": row.route_name,
        "allowed": row.outcome == "allowed",
        "outcome": row.outcome,
        "reason": facts.get("message") or f"{row.reason}.",
        "remedies": facts.get("remedies", []),
        "data": ages(facts.get("modified_at", {}), now),
        "data_version": row.data_version,
        "duration_ms": round(row.duration_seconds * 1000, 3),
        "token_error": facts.get("token_error", ""),
        "shadow": facts.get("shadow_outcome"),
        "note": " ".join(notes),
    }


def _request_section(request: PolicyRequest, identity: Identity | None, options: Options, now: float) -> Explanation:
    return {
        "decided_at": format_utc(now),
        "request": _request_fields(request),
        "user": _identity_section(identity),
        "routes": [
            _route(look)
            for look in decision_text.route_candidates(request, options.policy, default_ports(options), reserved_hosts(options))
        ],
    }


def _request_fields(request: PolicyRequest) -> dict[str, Any]:
    fields = {"method": request.method, "host": request.host_port, "path": request.path, "source_ip": request.source_ip}
    return fields | ({"mcp": request.mcp.fields()} if request.mcp else {})


def ages(modified: Mapping[str, float], now: float) -> list[dict[str, str]]:
    """Return the ages of the records that the decision used."""
    return [
        {"record": name, "modified_at": format_utc(at), "age": str(timedelta(seconds=max(int(now - at), 0)))}
        for name, at in modified.items()
    ]


def _identity_section(identity: Identity | None) -> dict[str, Any] | None:
    if identity is None:
        return None
    return {
        "user_id": identity.user_id if identity.subject else "",
        "email": identity.email,
        "email_verified": bool(identity.verified_email),
        "groups": list(identity.groups),
        **({"client_id": identity.client_id, "scopes": sorted(identity.scopes)} if identity.client_id else {}),
        "claims": {name: list(values) for name, values in identity.claims.items() if values},
    }


def _route(look: decision_text.RouteCandidate) -> dict[str, Any]:
    route = look.route
    conditions = {key: getattr(route, key) for key in ("path", "prefix", "regex") if getattr(route, key) is not None}
    name = {"name": route.name} if route.name else {}
    return {
        "key": f"policy[{look.index}]",
        "id": route.id,
        **name,
        "from": str(route.from_),
        **conditions,
        "matches": not look.mismatches,
        "mismatches": list(look.mismatches),
    }


def _note(request: PolicyRequest, options: Options) -> str:
    """Return a note if gate responds itself, so that no rule applies (proxy/reserved_paths.py)."""
    own = options.authenticate_service_url
    is_authenticate_host = (request.host, request.port) == (own.host, own.port)
    is_health_path = request.path in ("/ping", "/healthz") and (options.health_paths_on_routes or is_authenticate_host)
    if request.path.startswith(("/.gate/", "/.well-known/gate/")) or is_health_path:
        return "This path is reserved for gate on every host. Routes do not apply."
    if is_authenticate_host:
        return "This is the authenticate host: gate's own pages respond where no route matches."
    return ""
