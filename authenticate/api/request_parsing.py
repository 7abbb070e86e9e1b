"""API requests: find the operation, and validate its query and body by its declaration."""

from typing import Any
from urllib.parse import parse_qsl

from pydantic import ValidationError

from authenticate.api.api_operation import ApiOperation, match_operations
from authenticate.api.api_problems import ApiProblem, from_validation_error, invalid_input
from authenticate.api.operation_registry import OPERATIONS
from authenticate.provider import strict_json

MAX_BODY_BYTES = 16 * 1024
MAX_QUERY_PARAMS = 30
JSON = "application/json"


def find_operation(method: str, path: str) -> tuple[ApiOperation, str]:
    """Return the operation and the id in its path.

    Raises ApiProblem 404, or 405 with the methods of the path in `Allow`.
    """
    matches = list(match_operations(path, OPERATIONS))
    if not matches:
        raise ApiProblem(404, "path not found. See /.gate/api/openapi.json")
    for operation, id in matches:
        if operation.method == ("GET" if method == "HEAD" else method):
            return operation, id
    raise ApiProblem(405, f"{method} is not allowed here"[:100]).with_header("Allow", allowed_methods(path))


def allowed_methods(path: str) -> str:
    """Return the value of `Allow` for a path, or "" if no operation has this path."""
    methods = {operation.method for operation, _ in match_operations(path, OPERATIONS)}
    if not methods:
        return ""
    return ", ".join(sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])}))


def parse_query(operation: ApiOperation, text: str) -> Any:
    """Return the operation's query model.  Raises ApiProblem 400."""
    try:
        pairs = (
            parse_qsl(text, keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=MAX_QUERY_PARAMS) if text else []
        )
    except ValueError:
        raise invalid_input("query", [("", "is not written as key=value, in UTF-8")]) from None
    params = dict(pairs)
    if len(params) != len(pairs):
        names = [name for name, _ in pairs]
        raise invalid_input("query", [(name, "occurs twice") for name in params if names.count(name) > 1])
    try:
        return operation.query.model_validate(params)
    except ValidationError as error:
        raise from_validation_error("query", error) from None


def parse_body(operation: ApiOperation, content_type: str, content: bytes) -> Any:
    """Return the operation's body model, or None if it has none.  Raises ApiProblem 400, 413 or 415."""
    if len(content) > MAX_BODY_BYTES:
        raise ApiProblem(413, f"a body must be at most {MAX_BODY_BYTES} bytes")
    if operation.body is None:
        if content:
            raise invalid_input("body", [("", "a body is not allowed here")])
        return None
    if content_type.partition(";")[0].strip().lower() != JSON:
        raise ApiProblem(415, f"the body must be {JSON}")
    try:
        document = strict_json.parse_object(content)
    except ValueError as error:
        raise invalid_input("body", [("", f"is not an unambiguous JSON object: {error}"[:200])]) from None
    try:
        return operation.body.model_validate(document)
    except ValidationError as error:
        raise from_validation_error("body", error) from None
