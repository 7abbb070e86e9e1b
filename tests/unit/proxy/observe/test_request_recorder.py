"""Each decision is recorded as it was made, and a shadow policy is only reported."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from authorize.policy.identity import Identity
from authorize.policy.mcp_message import NO_MESSAGE, McpMessage
from foundation.telemetry.metrics import registry
from proxy.incoming_request import build_incoming_request
from proxy.observe.request_recorder import CLIENT_CLOSED, PageLog, RequestContext, identity_fields, mcp_fields
from proxy.responses.renderer import send_denial
from proxy.verdict import Deny
from tests.support.asgi import Answer, incoming_from
from tests.support.proxied import Proxied, proxied
from tests.unit.authorize.builders import user

PUBLIC = {"allow_public_unauthenticated_access": True}
OFFICE = {"source_ip": "10.0.0.0/8"}
SHADOW = {"mode": "shadow"}


async def recorded(gate: Proxied) -> list[tuple[str, str, str]]:
    await gate.decisions.flush()
    return [(entry.request.path, entry.decision.outcome.value if entry.decision else entry.failure, entry.error) for entry in gate.entries]


def counted(route: str, outcome: str, enforced: str) -> float:
    return registry.get_sample_value("gate_shadow_decisions_total", {"route": route, "outcome": outcome, "enforced": enforced}) or 0.0


async def test_denials_are_recorded_for_any_cause(tmp_path: Path) -> None:
    routes: list[dict[str, Any]] = [
        {"prefix": "/office", **PUBLIC, "policy": [{"deny": {"not": OFFICE}}]},
        {"prefix": "/open", **PUBLIC},
        {"prefix": "/private", "allowed_users": ["ann@corp.com"]},
    ]
    async with proxied(tmp_path, *routes) as gate:
        for path in ("/office", "/open", "/open", "/else", "//office/x", "/private?token=1", "/private"):
            await gate.send(f"https://app.example.com{path}")
        assert [(path, outcome) for path, outcome, _ in await recorded(gate)] == [
            ("/office", "forbidden"),
            ("/open", "allowed"),
            ("/else", "no route"),
            ("//office/x", "no route"),
            ("/private", "sign in"),
        ]
        assert all(entry.duration_seconds > 0 for entry in gate.entries)


async def test_mcp_call_is_in_the_decision_log(tmp_path: Path) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search"}}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))}
    async with proxied(tmp_path, {**PUBLIC, "mcp": {}, "policy": [{"deny": {"mcp_tool": "search"}}]}) as gate:
        await gate.send("https://app.example.com/mcp", body, method="POST", headers=headers)
        await gate.send("https://app.example.com/mcp", headers={"accept": "text/event-stream"})
        await gate.decisions.flush()
    assert [entry.request.mcp for entry in gate.entries] == [McpMessage("tools/call", tool="search"), NO_MESSAGE]


def test_mcp_call_is_in_the_access_log_with_a_bounded_length() -> None:
    context = RequestContext(incoming_from("https://app.example.com/mcp"))
    assert not any(name.startswith("mcp_") for name in context.log_fields())
    context.incoming.request = replace(context.incoming.request, mcp=McpMessage("tools/call", tool="x" * 1000))
    fields = context.log_fields()
    assert (fields["mcp_method"], fields["mcp_tool"]) == ("tools/call", "x" * 256)


@pytest.mark.parametrize(
    ("identity", "fields"),
    [
        (None, {"user_id": ""}),
        (user(), {"user_id": "oidc/1"}),
        (
            user(client_id="build-agent", linked_id="email/a"),
            {"user_id": "oidc/1", "linked_user_id": "email/a", "client_id": "build-agent"},
        ),
    ],
)
def test_fields_of_an_identity(identity: Identity | None, fields: dict[str, str]) -> None:
    assert identity_fields(identity) == fields


@pytest.mark.parametrize(
    ("message", "fields"),
    [
        (NO_MESSAGE, {}),
        (McpMessage("prompts/get", prompt="p"), {"mcp_method": "prompts/get", "mcp_prompt": "p"}),
        (McpMessage("resources/read", resources=("a", "b")), {"mcp_method": "resources/read", "mcp_resource": "a b"}),
    ],
)
def test_fields_of_a_message_are_those_that_it_has(message: McpMessage, fields: dict[str, str]) -> None:
    assert mcp_fields(message) == fields


async def test_ambiguous_path_is_recorded_as_refused(tmp_path: Path) -> None:
    async with proxied(tmp_path, {"prefix": "/admin", "name": "hidden", "allowed_users": ["ann@corp.com"]}, PUBLIC) as gate:
        answer = await gate.send("https://app.example.com/;x/admin/x")
        ((path, outcome, problem),) = await recorded(gate)
    assert (path, outcome) == ("/;x/admin/x", "bad request")
    assert "as /admin/x," in problem
    assert "route 'hidden'" in problem
    # The client learns that its path is refused, and nothing of other routes.
    assert answer.status == 400
    assert b"ambiguous" in answer.body
    assert b"hidden" not in answer.body


async def test_shadow_policy_changes_no_response_and_is_counted_logged_and_recorded(tmp_path: Path) -> None:
    closes = {"name": "closes", **PUBLIC, "policy": [{**SHADOW, "deny": {"not": OFFICE}}]}
    async with proxied(
        tmp_path, {**closes, "prefix": "/closes"}, {**PUBLIC, **SHADOW, "name": "opens"}, {"allowed_users": ["ann@corp.com"]}
    ) as gate:
        before = counted("closes", "forbidden", "allowed"), counted("opens", "allowed", "sign in")
        with capture_logs() as logs:
            statuses = [
                (await gate.send(f"https://app.example.com/{path}", headers={"accept": "text/html"})).status
                for path in ("closes", "closes", "x")
            ]
        after = counted("closes", "forbidden", "allowed"), counted("opens", "allowed", "sign in")
        outcomes = [(path, outcome) for path, outcome, _ in await recorded(gate)]
    assert statuses == [200, 200, 302]
    assert (after[0] - before[0], after[1] - before[1]) == (2, 1)
    assert [(entry["route"], entry["outcome"], entry["enforced"]) for entry in logs if entry["event"] == "shadow decision"] == [
        ("closes", "forbidden", "allowed"),
        ("closes", "forbidden", "allowed"),
        ("opens", "allowed", "sign in"),
    ]
    assert outcomes == [("/closes", "allowed"), ("/closes", "allowed"), ("/x", "sign in")]


async def test_unchanged_outcome_is_counted_and_not_logged(tmp_path: Path) -> None:
    async with proxied(tmp_path, {"name": "same", **PUBLIC, "policy": [{**SHADOW, "deny": {"http_path": "/never"}}]}) as gate:
        before = counted("same", "allowed", "allowed")
        with capture_logs() as logs:
            await gate.send("https://app.example.com/")
        assert counted("same", "allowed", "allowed") - before == 1
    assert [entry for entry in logs if entry["event"] == "shadow decision"] == []


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, dict[str, object]]]:
    written: list[tuple[int, dict[str, object]]] = []
    monkeypatch.setattr(
        "proxy.observe.request_recorder.log_access_lazy", lambda level, build_fields: written.append((level, build_fields()))
    )
    return written


@pytest.mark.parametrize(("status", "level"), [(404, logging.INFO), (503, logging.WARNING)])
async def test_gate_response_is_recorded_as_its_page_describes(lines: list[tuple[int, dict[str, object]]], status: int, level: int) -> None:
    answer, incoming = Answer(), incoming_from("https://nobody.example/x?token=secret")
    story = PageLog(incoming, answer.send)
    await send_denial(incoming, Deny(status, "Nothing is here."), story.send)
    story.emit()
    ((access_level, fields),) = lines
    assert (answer.status, access_level) == (status, level)
    wanted = {"request_id": incoming.request_id, "host": "nobody.example", "path": "/x", "status": status, "reason": "Nothing is here."}
    assert wanted.items() <= fields.items()
    assert "secret" not in str(fields)


async def test_unreadable_or_aborted_request_is_logged_too(lines: list[tuple[int, dict[str, object]]]) -> None:
    incoming = build_incoming_request(incoming_from("https://nobody.example/").scope)
    PageLog(incoming, Answer().send).emit()
    ((_, fields),) = lines
    assert (fields["request_id"], fields["status"]) == (incoming.request_id, CLIENT_CLOSED)
    assert "reason" not in fields
