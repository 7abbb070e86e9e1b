"""SCIM error responses (RFC 7644 3.12)."""

from typing import Any

from foundation.errors import GateError

SCHEMA = "urn:ietf:params:scim:api:messages:2.0:Error"


class ScimError(GateError):
    """Error response to a SCIM request.  `kind` is the scimType, one of the names in the RFC's table 9."""

    def __init__(self, status: int, detail: str, kind: str = ""):
        self.status = status
        self.kind = kind
        super().__init__(detail)

    def document(self) -> dict[str, Any]:
        document = {"schemas": [SCHEMA], "status": str(self.status), "detail": str(self)}
        return {**document, "scimType": self.kind} if self.kind else document


def invalid(detail: str) -> ScimError:
    return ScimError(400, detail, "invalidValue")


def not_found(id: str) -> ScimError:
    return ScimError(404, f"resource {id[:64]!r} not found")
