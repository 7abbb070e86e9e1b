"""The OpenAPI document is valid, current, and lists every operation with its problems."""

import jsonschema

from authenticate.api.openapi import openapi_document
from authenticate.api.operation_registry import OPERATIONS


def test_every_operation_is_in_the_document() -> None:
    documented = {
        operation["operationId"]: operation["x-permission"] for path in openapi_document()["paths"].values() for operation in path.values()
    }
    assert documented == {operation.name: operation.permission for operation in OPERATIONS}


def test_every_reference_leads_somewhere_and_every_schema_is_one() -> None:
    document = openapi_document()
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)

    def references(value: object) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
            return own.union(*map(references, value.values()))
        return set().union(*map(references, value)) if isinstance(value, list) else set()

    assert {f"#/components/schemas/{name}" for name in schemas} >= references(document)


def test_queries_can_be_written_into_urls() -> None:
    for path in openapi_document()["paths"].values():
        for operation in path.values():
            for parameter in operation["parameters"]:
                assert parameter["schema"]["type"] in ("string", "integer")


def test_every_operation_documents_its_errors() -> None:
    for path in openapi_document()["paths"].values():
        for operation in path.values():
            assert {"400", "401", "403", "429", "503"} <= operation["responses"].keys()
            assert ("requestBody" in operation) == ("415" in operation["responses"])
