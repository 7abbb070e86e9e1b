"""Errors in the form of RFC 7644, 3.12."""

from authenticate.scim.scim_errors import ScimError, invalid, not_found


def test_the_status_is_text_and_the_kind_is_there_where_there_is_one() -> None:
    assert ScimError(409, "taken", "uniqueness").document() == {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"],
        "status": "409",
        "detail": "taken",
        "scimType": "uniqueness",
    }
    assert "scimType" not in not_found("x").document()
    assert invalid("x").document()["scimType"] == "invalidValue"
