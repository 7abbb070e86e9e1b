"""OpenAPI 3.1 document, built from the declarations that validate requests."""

from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from authenticate.api.api_operation import ApiOperation
from authenticate.api.operation_registry import OPERATIONS
from foundation.web.problem_details import API_PATH, PROBLEM, reason_phrase

REF = "#/components/schemas/{model}"
# Error statuses of every operation.
ALWAYS = (400, 401, 403, 429, 503)
PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "RFC 9457. `permission` is the missing permission; `errors` lists each invalid part of a query or body.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "request_id": {"type": "string"},
        "permission": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in ("in", "name", "reason")},
                "required": ["in", "name", "reason"],
            },
        },
    },
    "required": ["type", "title", "status", "detail", "request_id"],
}


@cache
def openapi_document() -> dict[str, Any]:
    responses = {(each.response, "serialization") for each in OPERATIONS if each.response is not None}
    bodies = {(each.body, "validation") for each in OPERATIONS if each.body is not None}
    models = sorted((*responses, *bodies), key=lambda each: each[0].__name__)
    _, schemas = models_json_schema(models, ref_template=REF)  # type: ignore[arg-type]
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(f"/{operation.path}", {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "gate",
            "version": "1",
            "description": "Administration of gate for client applications. Examples: docs/reference/api.md.",
        },
        "servers": [{"url": API_PATH.rstrip("/")}],
        "security": [{"service_account": []}],
        "paths": paths,
        "components": {
            "schemas": {**schemas.get("$defs", {}), "Problem": PROBLEM_SCHEMA},
            "securitySchemes": {
                "service_account": {"type": "http", "scheme": "bearer", "description": "Token of a service account with permissions."}
            },
        },
    }


def _operation(operation: ApiOperation) -> dict[str, Any]:
    document: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": f"Requires the permission `{operation.permission}`.",
        "x-permission": operation.permission,
        "parameters": [*_id_parameter(operation), *_query_parameters(operation.query)],
        "responses": _responses(operation),
    }
    if operation.body is not None:
        document["requestBody"] = {"required": True, "content": {"application/json": {"schema": _reference(operation.body)}}}
    return document


def _id_parameter(operation: ApiOperation) -> list[dict[str, Any]]:
    if not operation.id_pattern:
        return []
    return [{"name": "id", "in": "path", "required": True, "schema": {"type": "string", "pattern": f"^{operation.id_pattern}$"}}]


def _query_parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    """Return a parameter for each field.  Null is left out of its type, because a URL cannot hold it."""
    parameters = []
    for name, schema in model.model_json_schema().get("properties", {}).items():
        rest = {key: value for key, value in schema.items() if key not in ("title", "anyOf", "description")}
        (plain,) = [each for each in schema.get("anyOf", [{}]) if each.get("type") != "null"]
        rest = {key: value for key, value in {**rest, **plain}.items() if value is not None}
        parameters.append({"name": name, "in": "query", "description": schema.get("description", ""), "schema": rest})
    return parameters


def _responses(operation: ApiOperation) -> dict[str, Any]:
    statuses = {*ALWAYS, *operation.problems, *((413, 415) if operation.body is not None else ())}
    problems = {str(status): _problem(status) for status in sorted(statuses)}
    success: dict[str, Any] = {"description": "Success." if operation.response is None else reason_phrase(operation.status)}
    if operation.response is not None:
        success["content"] = {"application/json": {"schema": _reference(operation.response)}}
    return {str(operation.status): success, **problems}


def _problem(status: int) -> dict[str, Any]:
    return {"description": reason_phrase(status), "content": {PROBLEM: {"schema": {"$ref": REF.format(model="Problem")}}}}


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": REF.format(model=model.__name__)}
