"""Redirect of a route, in place of an upstream."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from config.fields.basic_types import Bool, Text
from config.fields.field_type import PATH, FieldType, choice_type
from config.routes.route_values import RewrittenPath, location_path
from config.validation import Finding, Settings
from foundation.values import canonical_host

REDIRECT_CODES = (301, 302, 303, 307, 308)


def port(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65535:
        raise ValueError("must be a number from 1 to 65535")
    return value


def redirect_code(value: Any) -> int:
    if not isinstance(value, int) or value not in REDIRECT_CODES:
        raise ValueError(f"must be one of {', '.join(map(str, REDIRECT_CODES))}")
    return value


def _check_redirect(redirect: "RouteRedirect") -> Iterator[Finding]:
    targets = (redirect.scheme_redirect, redirect.host_redirect, redirect.port_redirect, redirect.path_redirect, redirect.prefix_rewrite)
    if not (redirect.https_redirect or redirect.strip_query or any(target is not None for target in targets)):
        yield (), "changes nothing, so it would redirect to itself forever"


class RouteRedirect(Settings):
    """Answers with a redirect instead of proxying."""

    RULES = (_check_redirect,)

    https_redirect: Bool = Field(False, description="Redirects to `https`.", examples=[True])
    scheme_redirect: Annotated[str, choice_type("http", "https")] | None = Field(
        None, description="Scheme of the target URL.", examples=["https"]
    )
    host_redirect: Annotated[Text, AfterValidator(canonical_host)] | None = Field(
        None, description="Host of the target URL.", examples=["app.example.com"]
    )
    port_redirect: Annotated[int, FieldType("integer", port, {"type": "integer", "minimum": 1, "maximum": 65535})] | None = Field(
        None, description="Port of the target URL.", examples=[8443]
    )
    path_redirect: Annotated[str, FieldType("string", location_path, PATH)] | None = Field(
        None, description="Path of the target URL, optionally with a query.", examples=["/new"]
    )
    prefix_rewrite: RewrittenPath | None = Field(None, description="Replacement for the matched prefix or path.", examples=["/new/"])
    response_code: Annotated[int, FieldType("integer", redirect_code, {"type": "integer", "enum": list(REDIRECT_CODES)})] = Field(
        301, description="HTTP status code of the redirect.", examples=[308]
    )
    strip_query: Bool = Field(False, description="Removes the query from the target URL.", examples=[True])
