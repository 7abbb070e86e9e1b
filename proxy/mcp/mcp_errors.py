"""JSON-RPC error codes, and the error of a message that gate does not forward."""

from foundation.errors import BadRequest

PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS = -32700, -32600, -32602  # JSON-RPC 2.0, 5.1
HEADER_MISMATCH = -32020  # MCP 2026-07-28: a header differs from the body
REFUSED = -32010  # a denial of gate, in the range that MCP leaves to implementations


class McpRejected(BadRequest):
    """A message is invalid, ambiguous or too large.  `rpc_id` is its id, as far as it was read."""

    code = INVALID_REQUEST
    rpc_id: str | int | None = None

    def __init__(self, code: int, message: str, status: int = 400, rpc_id: str | int | None = None):
        super().__init__(message)
        self.code, self.status, self.rpc_id = code, status, rpc_id
