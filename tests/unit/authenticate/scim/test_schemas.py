"""SCIM service documents match the implementation."""

import pytest

from authenticate.scim.attribute_paths import USER
from authenticate.scim.resources import parse_user
from authenticate.scim.schemas import resource_types, schemas, service_provider_config

BASE = "https://auth.example.com/.gate/scim/v2/"


def test_reports_supported_features() -> None:
    config = service_provider_config(BASE)
    supported = {name for name, value in config.items() if isinstance(value, dict) and value.get("supported")}
    assert supported == {"patch", "filter", "etag"}


def test_each_type_has_its_schema() -> None:
    types = resource_types(BASE)
    known = {schema["id"] for schema in schemas(BASE, "externalId")}
    assert [type["endpoint"] for type in types] == ["/Users", "/Groups"]
    assert {type["schema"] for type in types} <= known
    assert all(schema["meta"]["location"] == f"{BASE}Schemas/{schema['id']}" for schema in schemas(BASE, "externalId"))


@pytest.mark.parametrize("user_id", ["externalId", "userName"])
def test_required_attributes(user_id: str) -> None:
    attributes = schemas(BASE, user_id)[0]["attributes"]
    assert {each["name"] for each in attributes if each["required"]} == {"userName", user_id}


def test_stores_each_schema_attribute() -> None:
    named = {each["name"]: "x" for each in schemas(BASE, "userName")[0]["attributes"] if each["mutability"] == "readWrite"}
    assert schemas(BASE, "userName")[0]["id"] == USER
    assert parse_user({**named, "active": True}).keys() == named.keys()
