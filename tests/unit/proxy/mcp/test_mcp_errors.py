"""Codes of JSON-RPC errors, which clients compare."""

from proxy.mcp.mcp_errors import HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, REFUSED, McpRejected


def test_codes_are_those_of_the_specifications_and_one_of_implementations() -> None:
    assert (PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH) == (-32700, -32600, -32602, -32020)
    assert -32019 <= REFUSED <= -32000
    error = McpRejected(INVALID_REQUEST, "text", status=413, rpc_id=1)
    assert (error.code, error.status, error.rpc_id, error.message) == (-32600, 413, 1, "text")
