"""What the server says of itself is what it does."""

from authenticate.scim.schemas import resource_types, schemas, service_provider_config

BASE = "https://auth.example.com/.gate/scim/v2/"


def test_only_what_is_there_is_said_to_be_supported() -> None:
    config = service_provider_config(BASE)
    supported = {name for name, value in config.items() if isinstance(value, dict) and value.get("supported")}
    assert supported == {"patch", "filter", "etag"}


def test_each_type_has_its_schema() -> None:
    types = resource_types(BASE)
    known = {schema["id"] for schema in schemas(BASE)}
    assert [type["endpoint"] for type in types] == ["/Users", "/Groups"]
    assert {type["schema"] for type in types} <= known
    assert all(schema["meta"]["location"] == f"{BASE}Schemas/{schema['id']}" for schema in schemas(BASE))
