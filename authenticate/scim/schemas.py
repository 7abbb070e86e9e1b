"""What this SCIM server says of itself: ServiceProviderConfig, ResourceTypes, Schemas (RFC 7643, 5 to 7)."""

from typing import Any

from authenticate.scim.attributes import ENTERPRISE, GROUP, USER
from authenticate.scim.patch import MOST_OPERATIONS

MOST_RESULTS = 500
_CORE = "urn:ietf:params:scim:schemas:core:2.0:"


def service_provider_config(base: str) -> dict[str, Any]:
    return {
        "schemas": [f"{_CORE}ServiceProviderConfig"],
        "patch": {"supported": True},
        "bulk": {"supported": False, "maxOperations": MOST_OPERATIONS, "maxPayloadSize": 0},
        "filter": {"supported": True, "maxResults": MOST_RESULTS},
        "changePassword": {"supported": False},
        "sort": {"supported": False},
        "etag": {"supported": True},
        "authenticationSchemes": [
            {"type": "oauthbearertoken", "name": "Bearer token", "description": "The token of the setting scim_token.", "primary": True}
        ],
        "meta": {"resourceType": "ServiceProviderConfig", "location": f"{base}ServiceProviderConfig"},
    }


def resource_types(base: str) -> list[dict[str, Any]]:
    user = _resource_type("User", USER, base)
    return [{**user, "schemaExtensions": [{"schema": ENTERPRISE, "required": False}]}, _resource_type("Group", GROUP, base)]


def _resource_type(name: str, schema: str, base: str) -> dict[str, Any]:
    return {
        "schemas": [f"{_CORE}ResourceType"],
        "id": name,
        "name": name,
        "endpoint": f"/{name}s",
        "schema": schema,
        "meta": {"resourceType": "ResourceType", "location": f"{base}ResourceTypes/{name}"},
    }


def schemas(base: str) -> list[dict[str, Any]]:
    name = [_attribute(each) for each in ("formatted", "familyName", "givenName")]
    addressed = [_attribute("value"), _attribute("type"), _attribute("primary", "boolean")]
    member = [_attribute("value", case_exact=True), _attribute("type"), _attribute("$ref", "reference")]
    user = [
        _attribute("userName", required=True, unique=True),
        _attribute("externalId", case_exact=True, unique=True),
        _attribute("displayName"),
        _attribute("active", "boolean"),
        {**_attribute("name", "complex"), "subAttributes": name},
        {**_attribute("emails", "complex"), "multiValued": True, "subAttributes": addressed},
        {**_attribute("groups", "complex"), "multiValued": True, "mutability": "readOnly", "subAttributes": member},
    ]
    group = [
        _attribute("displayName", required=True),
        _attribute("externalId", case_exact=True, unique=True),
        {**_attribute("members", "complex"), "multiValued": True, "subAttributes": member},
    ]
    return [
        _schema(USER, "User", user, base),
        _schema(GROUP, "Group", group, base),
        _schema(ENTERPRISE, "EnterpriseUser", [_attribute("employeeNumber"), _attribute("department"), _attribute("organization")], base),
    ]


def _schema(id: str, name: str, attributes: list[dict[str, Any]], base: str) -> dict[str, Any]:
    meta = {"resourceType": "Schema", "location": f"{base}Schemas/{id}"}
    return {"schemas": [f"{_CORE}Schema"], "id": id, "name": name, "attributes": attributes, "meta": meta}


def _attribute(
    name: str, kind: str = "string", *, required: bool = False, unique: bool = False, case_exact: bool = False
) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "multiValued": False,
        "required": required,
        "caseExact": case_exact,
        "mutability": "readWrite",
        "returned": "default",
        "uniqueness": "server" if unique else "none",
    }
