"""JSON-RPC errors of refusals."""

import json

from foundation.web.message import Message
from proxy.responses.rpc_errors import rpc_error
from proxy.verdict import Deny, McpErrorDetails


def test_error_has_the_message_and_only_the_data_that_there_is() -> None:
    plain = json.loads(rpc_error(Deny(503, Message("No.")), None, "abc"))
    assert plain == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32010, "message": "No.", "data": {"status": 503, "reason": "No.", "request_id": "abc"}},
    }
    details = McpErrorDetails(-32600, "policy[0].deny", "https://auth.example.com/.gate/access?route=x")
    complete = json.loads(rpc_error(Deny(403, "No.", "Ask.", rpc_error=details), 7, "abc"))
    assert (complete["id"], complete["error"]["code"], complete["error"]["message"]) == (7, -32600, "No. Ask.")
    assert complete["error"]["data"]["access_request_url"] == details.access_request_url
    assert complete["error"]["data"]["rule"] == details.rule
