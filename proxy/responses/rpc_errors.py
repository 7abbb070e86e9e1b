"""JSON-RPC form of refusals, for clients of MCP servers."""

import json

from proxy.verdict import Deny


def rpc_error(refusal: Deny, rpc_id: str | int | None, request_id: str) -> bytes:
    """Return the JSON-RPC error of a refusal, with the id of the message, and in `data` what a person can do about it."""
    details, advice = refusal.rpc_error, f" {refusal.advice}" if refusal.advice else ""
    data = {
        "status": refusal.status,
        "reason": str(refusal.reason),
        "rule": details.rule,
        "request_id": request_id,
        "access_request_url": details.access_request_url,
        "connect_url": details.connect_url,
    }
    error = {
        "code": details.code,
        "message": f"{refusal.reason}{advice}",
        "data": {name: value for name, value in data.items() if value},
    }
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "error": error}).encode() + b"\n"
