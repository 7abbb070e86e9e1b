"""API problems: what a program is told that does not get what it asks for (RFC 9457)."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from foundation.errors import GateError

MAX_ERRORS = 20
MAX_NAME_LENGTH = 100


class ApiProblem(GateError):
    """A request that is not answered as it was meant; `members` are the document's own, `reason` is for the log."""

    def __init__(self, status: int, detail: str, **members: Any):
        super().__init__(detail)
        self.status = status
        self.members = members
        self.headers: dict[str, str] = {}
        self.reason = ""

    def with_header(self, name: str, value: str) -> "ApiProblem":
        self.headers[name] = value
        return self


def not_found(what: str) -> ApiProblem:
    return ApiProblem(404, f"{what} not found")


def invalid_input(place: str, findings: Iterable[tuple[str, str]]) -> ApiProblem:
    """Problem of a query or body, which names each member that is wrong."""
    errors = [{"in": place, "name": name[:MAX_NAME_LENGTH], "reason": reason} for name, reason in findings][:MAX_ERRORS]
    named = ", ".join(f"{each['name']}: {each['reason']}" for each in errors)
    return ApiProblem(400, f"invalid {place}: {named}"[:1000], errors=errors)


def from_validation_error(place: str, error: ValidationError) -> ApiProblem:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return invalid_input(place, [(".".join(map(str, each["loc"])), _reason(each)) for each in found])


def _reason(found: Mapping[str, Any]) -> str:
    return "unknown key" if found["type"] == "extra_forbidden" else str(found["msg"]).removeprefix("Value error, ")
