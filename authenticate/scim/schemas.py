"""SCIM service documents: ServiceProviderConfig, ResourceTypes, Schemas (RFC 7643, 5 to 8)."""

from typing import Any

from authenticate.scim.attribute_paths import ENTERPRISE, GROUP, USER
from authenticate.scim.scim_query import MAX_RESULTS

_CORE = "urn:ietf:params:scim:schemas:core:2.0:"

Attribute = dict[str, Any]


def service_provider_config(base: str) -> dict[str, Any]:
    return {
        "schemas": [f"{_CORE}ServiceProviderConfig"],
        "patch": {"supported": True},
        "bulk": {"supported": False, "maxOperations": 0, "maxPayloadSize": 0},
        "filter": {"supported": True, "maxResults": MAX_RESULTS},
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


def schemas(base: str, user_id: str) -> list[dict[str, Any]]:
    """Return the Schemas document.  `user_id` is the required attribute of the setting scim_user_id."""
    addressed = [_text("value"), _text("type"), _text("display"), _attribute("primary", "boolean")]
    user = [
        {**_text("userName"), "required": True, "uniqueness": "server"},
        {**_text("externalId"), "required": user_id == "externalId", "caseExact": True, "uniqueness": "server"},
        _complex("name", *map(_text, ("formatted", "familyName", "givenName", "middleName", "honorificPrefix", "honorificSuffix"))),
        *map(_text, ("displayName", "nickName", "title", "userType", "preferredLanguage", "locale", "timezone")),
        _reference("profileUrl", "external"),
        _attribute("active", "boolean"),
        *(_list(name, *addressed) for name in ("emails", "phoneNumbers", "ims", "entitlements", "roles")),
        _list("photos", _reference("value", "external"), *addressed[1:]),
        _list("addresses", *map(_text, ("formatted", "streetAddress", "locality", "region", "postalCode", "country", "type"))),
        {**_list("groups", *map(_read_only, (_exact("value"), _reference("$ref", "Group")))), "mutability": "readOnly"},
    ]
    group = [
        {**_text("displayName"), "required": True},
        {**_exact("externalId"), "uniqueness": "server"},
        _list("members", *map(_immutable, (_exact("value"), _reference("$ref", "User"), {**_text("type"), "canonicalValues": ["User"]}))),
    ]
    manager = _complex("manager", _exact("value"), _reference("$ref", "User"), _text("displayName"))
    enterprise = [*map(_text, ("employeeNumber", "costCenter", "organization", "division", "department")), manager]
    return [
        _schema(USER, "User", user, base),
        _schema(GROUP, "Group", group, base),
        _schema(ENTERPRISE, "EnterpriseUser", enterprise, base),
    ]


def _schema(id: str, name: str, attributes: list[Attribute], base: str) -> dict[str, Any]:
    meta = {"resourceType": "Schema", "location": f"{base}Schemas/{id}"}
    return {"schemas": [f"{_CORE}Schema"], "id": id, "name": name, "attributes": attributes, "meta": meta}


def _attribute(name: str, kind: str) -> Attribute:
    return {
        "name": name,
        "type": kind,
        "multiValued": False,
        "required": False,
        "caseExact": False,
        "mutability": "readWrite",
        "returned": "default",
        "uniqueness": "none",
    }


def _text(name: str) -> Attribute:
    return _attribute(name, "string")


def _exact(name: str) -> Attribute:
    return {**_text(name), "caseExact": True}


def _reference(name: str, to: str) -> Attribute:
    return {**_attribute(name, "reference"), "referenceTypes": [to], "caseExact": True}


def _complex(name: str, *parts: Attribute) -> Attribute:
    return {**_attribute(name, "complex"), "subAttributes": list(parts)}


def _list(name: str, *parts: Attribute) -> Attribute:
    return {**_complex(name, *parts), "multiValued": True}


def _read_only(attribute: Attribute) -> Attribute:
    return {**attribute, "mutability": "readOnly"}


def _immutable(attribute: Attribute) -> Attribute:
    return {**attribute, "mutability": "immutable"}
