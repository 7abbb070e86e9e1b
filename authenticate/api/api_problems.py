"""API problems: error responses as problem documents (RFC 9457)."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from foundation.errors import GateError

MAX_ERRORS = 20
MAX_NAME_LENGTH = 100


class ApiProblem(GateError):
    """Error response.  `members` are extension members of the document; `reason` is logged only."""

    def __init__(self, status: int, detail: str, **members: Any):
        super().__init__(detail)
        self.status = status
        self.members = members
        self.headers: dict[str, str] = {}
        self.reason = ""

    def with_header(self, name: str, value: str) -> "ApiProblem":
        self.headers[name] = value
        return self


def not_found(noun: str) -> ApiProblem:
    return ApiProblem(404, f"{noun} not found")


def invalid_input(location: str, findings: Iterable[tuple[str, str]]) -> ApiProblem:
    """Return the problem 400 for a query or body (`location`) with these (name, reason) of its invalid members."""
    errors = [{"in": location, "name": name[:MAX_NAME_LENGTH], "reason": reason} for name, reason in findings][:MAX_ERRORS]
    summary = ", ".join(f"{each['name']}: {each['reason']}" for each in errors)
    return ApiProblem(400, f"invalid {location}: {summary}"[:1000], errors=errors)


def from_validation_error(location: str, error: ValidationError) -> ApiProblem:
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    return invalid_input(location, [(".".join(map(str, each["loc"])), _reason(each)) for each in errors])


def _reason(error: Mapping[str, Any]) -> str:
    return "unknown key" if error["type"] == "extra_forbidden" else str(error["msg"]).removeprefix("Value error, ")
