"""Snapshot of a decision's inputs, stored to explain and to replay it.

It contains only inputs that rules compare.  Headers and claims are included if a rule names them.  The value of a header is omitted if it
is a secret, or equals a value of a rule.  Omissions are recorded, so that a replay can detect missing inputs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from authorize.policy.identity import GrantPeriod, Identity
from authorize.policy.language.request_criteria import is_secret_header
from authorize.policy.language.text_operators import TextMatcher, text_matcher
from authorize.policy.mcp_message import McpMessage
from authorize.policy.policy_request import ClientCertificate, PolicyRequest
from config.routes.policy.criteria import MCP_CRITERIA
from config.routes.policy.policy_language import iter_comparisons
from config.routes.route import Route
from foundation.claim_values import ListedValues, NullValues, PartialValues, UnescapedValues, unescape

MAX_PATH_LENGTH = 2048
MAX_TEXT_LENGTH = 1024
MAX_VALUES = 1000
MAX_URIS = 20

# Properties of a claim that rules check in addition to its values.
_KINDS = {"partial": PartialValues, "null": NullValues, "unescaped": UnescapedValues}
_KIND_NAMES: dict[type, str] = {kind: name for name, kind in _KINDS.items()}

Snapshot = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PolicyInputs:
    """Names of the headers and claims that rules compare, and whether a rule checks temporary access.

    `header_tests` are the text matchers of header rules by name.  A value that matches may be a secret.
    """

    headers: frozenset[bytes]
    claims: frozenset[str]
    access: bool = False
    header_tests: Mapping[str, Sequence[TextMatcher]] = field(default_factory=dict, compare=False)


def referenced_inputs(routes: Iterable[Route]) -> PolicyInputs:
    headers, claims, uses_grants, tests = set[bytes](), set[str](), False, dict[str, list[TextMatcher]]()
    for route in routes:
        uses_grants = uses_grants or route.uses_temporary_access
        for comparison in iter_comparisons(route.blocks):
            if comparison.criterion == "http_header":
                headers.add(comparison.argument.encode("ascii"))
                if comparison.operator != "exists":
                    tests.setdefault(comparison.argument, []).append(text_matcher(comparison.operator, comparison.operand))
            elif comparison.criterion in ("claim", "acr"):
                claims.add(comparison.argument or "acr")
                claims.add(unescape(comparison.argument or "acr"))  # what its absence is judged by
    return PolicyInputs(frozenset(headers), frozenset(claims), uses_grants, tests)


def bounded(request: PolicyRequest, inputs: PolicyInputs) -> PolicyRequest:
    """Return the request without its query, which may contain secrets, and with only the headers that rules check."""
    headers = (
        tuple((name, value[: MAX_TEXT_LENGTH + 1]) for name, value in request.headers if name in inputs.headers) if inputs.headers else ()
    )
    certificate = request.client_certificate
    return PolicyRequest(
        request.method,
        request.host,
        request.port,
        request.path[: MAX_PATH_LENGTH + 1],
        "",
        request.origin[:MAX_TEXT_LENGTH],
        request.access_control_request_method[:MAX_TEXT_LENGTH],
        request.source_ip,
        headers[:MAX_VALUES],
        None if certificate is None else replace(certificate, chain=()),
        None if request.mcp is None else _bounded_message(request.mcp),
    )


def _bounded_message(message: McpMessage) -> McpMessage:
    if not message.resources:
        return message
    return replace(message, resources=tuple(uri[: MAX_PATH_LENGTH + 1] for uri in message.resources[: MAX_URIS + 1]))


def snapshot_request(request: PolicyRequest, inputs: PolicyInputs) -> Snapshot:
    """Return the snapshot of a redacted request.  `captured_headers` names the headers whose every value is included."""
    sent = [(name.decode("ascii"), value) for name, value in request.headers]
    left_out = {name for name, value in sent if is_secret_header(name) or len(value) > MAX_TEXT_LENGTH or _passes(name, value, inputs)}
    certificate = request.client_certificate
    facts: Snapshot = {
        "method": request.method,
        "host": request.host,
        "port": request.port,
        "path": request.path[:MAX_PATH_LENGTH],
        "origin": request.origin,
        "preflight": request.access_control_request_method,
        "source_ip": request.source_ip,
        "headers": [[name, value.decode("latin-1")] for name, value in sent if name not in left_out],
        "captured_headers": sorted(
            {name.decode("ascii") for name in inputs.headers if not is_secret_header(name.decode("ascii"))} - left_out
        ),
        "certificate": None if certificate is None else _certificate(certificate),
        "mcp": None if request.mcp is None else request.mcp.fields(),
        "truncated": _truncated_part(request),
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [])}


def _truncated_part(request: PolicyRequest) -> str:
    if len(request.path) > MAX_PATH_LENGTH:
        return "the path"
    uris = () if request.mcp is None else request.mcp.resources
    return "the MCP message" if len(uris) > MAX_URIS or any(len(uri) > MAX_PATH_LENGTH for uri in uris) else ""


def _passes(name: str, value: bytes, inputs: PolicyInputs) -> bool:
    """Return whether a header has a value that a rule compares it with."""
    return any(test(value.decode("utf-8", "replace")) for test in inputs.header_tests.get(name, ()))


def _certificate(certificate: ClientCertificate) -> Snapshot:
    return {
        "fingerprint": certificate.fingerprint,
        "spki_hash": certificate.spki_hash,
        "subject": certificate.subject[:MAX_TEXT_LENGTH],
        "verdicts": dict(certificate.verification_errors),
    }


def _parse_certificate(facts: Snapshot) -> ClientCertificate:
    return ClientCertificate(facts["fingerprint"], facts["spki_hash"], facts["subject"], verification_errors=facts["verdicts"])


def parse_request_snapshot(facts: Snapshot) -> PolicyRequest:
    certificate = facts.get("certificate")
    return PolicyRequest(
        method=facts.get("method", ""),
        host=facts["host"],
        port=facts.get("port"),
        path=facts["path"],
        origin=facts.get("origin", ""),
        access_control_request_method=facts.get("preflight", ""),
        source_ip=facts.get("source_ip", ""),
        headers=tuple((name.encode("ascii"), value.encode("latin-1")) for name, value in facts.get("headers", ())),
        client_certificate=_parse_certificate(certificate) if certificate else None,
        mcp=McpMessage.from_fields(facts["mcp"]) if "mcp" in facts else None,
    )


def snapshot_identity(identity: Identity, inputs: PolicyInputs) -> Snapshot:
    """Return the snapshot of an identity, without tokens and claims that no rule checks.

    `captured_claims` names the claims whose every value is included.
    """
    found = {name: identity.claims[name] for name in inputs.claims & identity.claims.keys()}
    left_out = {
        name for name, values in found.items() if len(values) > MAX_VALUES or any(len(str(value)) > MAX_TEXT_LENGTH for value in values)
    }
    facts: Snapshot = {
        "user_id": identity.user_id,
        "subject": identity.subject,
        "provider": identity.provider,
        "issued_at": identity.issued_at,
        "auth_time": identity.auth_time,
        "email": identity.email,
        "verified_email": identity.verified_email,
        "name": identity.name,
        "client_id": identity.client_id,
        "scopes": sorted(identity.scopes),
        "group_ids": sorted(identity.group_ids)[:MAX_VALUES],
        "group_names": sorted(identity.group_names)[:MAX_VALUES],
        "groups_incomplete": "yes" if identity.groups_incomplete else "",
        "claims": {name: list(values) for name, values in sorted(found.items()) if name not in left_out},
        "claim_kinds": {name: kind for name, values in sorted(found.items()) if (kind := _KIND_NAMES.get(type(values), ""))},
        "captured_claims": sorted(inputs.claims - left_out),
        "grants": [[route, *span] for route, span in sorted(identity.grants.items())][:MAX_VALUES] if inputs.access else [],
        "captured_grants": "yes" if inputs.access and len(identity.grants) <= MAX_VALUES else "",
        "truncated": "the list of groups" if max(len(identity.group_ids), len(identity.group_names)) > MAX_VALUES else "",
    }
    return {name: value for name, value in facts.items() if value not in ("", [], {})}


def identity_from_snapshot(facts: Snapshot | None) -> Identity | None:
    if facts is None:
        return None
    kinds = {name: _KINDS[kind] for name, kind in facts.get("claim_kinds", {}).items()}
    return Identity(
        session_id="",
        user_id=facts["user_id"],
        subject=facts["subject"],
        provider=facts["provider"],
        expires_at=float("inf"),
        issued_at=facts["issued_at"],
        auth_time=facts.get("auth_time", 0.0),
        email=facts.get("email", ""),
        verified_email=facts.get("verified_email", ""),
        name=facts.get("name", ""),
        client_id=facts.get("client_id", ""),
        scopes=frozenset(facts.get("scopes", ())),
        group_ids=frozenset(facts.get("group_ids", ())),
        group_names=frozenset(facts.get("group_names", ())),
        groups=(*facts.get("group_ids", ()), *facts.get("group_names", ())),
        groups_incomplete=bool(facts.get("groups_incomplete")),
        claims={name: kinds.get(name, ListedValues)(values) for name, values in facts.get("claims", {}).items()},
        grants={route: GrantPeriod(since, until) for route, since, until in facts.get("grants", ())},
    )


def missing_inputs(route: Route, request: Snapshot, identity: Snapshot | None) -> str:
    """Return the inputs that the route's rules need and the snapshot lacks, as text.  Empty if it is complete."""
    inputs = referenced_inputs([route])
    missing = [request.get("truncated", ""), (identity or {}).get("truncated", "")]
    headers = {name.decode("ascii") for name in inputs.headers}
    missing += [f"http_header/{name}" for name in sorted(headers - set(request.get("captured_headers", ())))]
    if not route.criteria.isdisjoint(MCP_CRITERIA) and "mcp" not in request:
        missing.append("the MCP message")
    if identity is not None:
        missing += [f"claim/{name}" for name in sorted(inputs.claims - set(identity.get("captured_claims", ())))]
        missing += ["granted"] if inputs.access and not identity.get("captured_grants") else []
    return ", ".join(filter(None, missing))
