"""One entry of `policy`: what it matches, who may pass, where it leads."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar

import re2
from pydantic import AfterValidator, Field, PlainValidator

from gateproject.config import unbuilt
from gateproject.config.fields import Base64, Bool, Duration, File, Text, TextList, or_file, text, text_list
from gateproject.config.headers import RemovableHeaders, RequestHeaders
from gateproject.config.types import Url, canonical_host, parse_url
from gateproject.config.validation import Finding, Settings

REDIRECT_CODES = (301, 302, 303, 307, 308)
_DEEPEST_CLAIM = 32


def from_url(value: Any) -> Url:
    if isinstance(value, Url):
        return value
    parsed = parse_url(text(value), wildcard=True)
    if parsed.scheme == "tcp+https":
        raise ValueError("the scheme tcp+https is specified but not available in this release")
    if parsed.scheme != "https":
        raise ValueError("the scheme must be https")
    if parsed.path not in ("", "/"):
        raise ValueError(f"config: policy source url ({parsed}) contains a path, but it should be set using the path field instead")
    if parsed.query:
        raise ValueError("must not contain a query")
    return Url(parsed.scheme, parsed.host, parsed.port)


def upstream_urls(value: Any) -> tuple[Url, ...]:
    elements = [value] if isinstance(value, str | Url) else value
    if not isinstance(elements, list | tuple) or not elements:
        raise ValueError("must be a URL, or a list with one")
    if len(elements) > 1:
        raise ValueError("several upstreams are specified but not available in this release")
    return (elements[0] if isinstance(elements[0], Url) else _upstream_url(text(elements[0])),)


def _upstream_url(written: str) -> Url:
    address, comma, weight = written.rpartition(",")
    if comma and weight.strip().isdigit():
        raise ValueError("weights are specified but not available in this release")
    parsed = parse_url(address + comma + weight, underscore=True)
    if parsed.scheme not in ("http", "https"):
        not_yet = " (tcp is specified but not available in this release)" if parsed.scheme == "tcp" else ""
        raise ValueError(f"the scheme must be http or https{not_yet}")
    if parsed.query:
        raise ValueError("must not contain a query")
    return parsed


def absolute_path(value: Any) -> str:
    path = text(value)
    if not path.startswith("/"):
        raise ValueError("must begin with /")
    return path


def rewritten_path(value: Any) -> str:
    """A path that we write into request lines and Location: without query, in plain ASCII."""
    path = location_path(value)
    if "?" in path:
        raise ValueError("must be a path without a query")
    return path


def location_path(value: Any) -> str:
    """A path, and perhaps a query, that we write into Location."""
    path = absolute_path(value)
    parse_url(f"https://host{path}")
    return path


def re2_expression(value: Any) -> str:
    expression = text(value)
    try:
        re2.compile(expression, _quiet())
    except (re2.error, UnicodeError) as error:
        raise ValueError(f"is not a valid RE2 expression: {_as_text(error)}") from None
    return expression


def _quiet() -> re2.Options:
    options = re2.Options()
    options.log_errors = False  # else RE2 writes to stderr by itself
    return options


def _as_text(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def flattened_claims(value: Any) -> Mapping[str, tuple[Any, ...]]:
    """Nested maps become dotted keys, scalars become lists of one."""
    if not isinstance(value, Mapping):
        raise ValueError("must be a map of claims to lists of values")
    flat: dict[str, tuple[Any, ...]] = {}
    for key, values in _claims(value, "", _DEEPEST_CLAIM):
        flat[key] = flat.get(key, ()) + values
    return flat


def _claims(value: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    if depth == 0:
        raise ValueError("is nested too deeply")
    for key, content in value.items():
        if isinstance(content, Mapping):
            yield from _claims(content, f"{prefix}{key}.", depth - 1)
            continue
        values = content if isinstance(content, list | tuple) else [content]
        if not all(isinstance(element, str | int | float) and element != "" for element in values):
            raise ValueError(f"the values of {prefix + str(key)!a} must be text, numbers or true and false")
        yield f"{prefix}{key}", tuple(values)


def domains(value: Any) -> tuple[str, ...]:
    for element in (elements := text_list(value)):
        if "@" in element:
            raise ValueError(f"{element!a} holds an @: write the domain alone, as in example.com")
    return elements


def port(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65535:
        raise ValueError("must be a number from 1 to 65535")
    return value


def redirect_code(value: Any) -> int:
    if not isinstance(value, int) or value not in REDIRECT_CODES:
        raise ValueError(f"must be one of {', '.join(map(str, REDIRECT_CODES))}")
    return value


def origins(value: Any) -> tuple[str, ...]:
    return tuple(_origin(element) for element in text_list(value))


def _origin(written: str) -> str:
    parsed = parse_url(written)
    if parsed.scheme not in ("http", "https") or parsed.path or parsed.query:
        raise ValueError(f"{written!a} is not an origin as browsers send it: https://app.example.com, without a path")
    return parsed.origin


def web_scheme(value: Any) -> str:
    if value not in ("http", "https"):
        raise ValueError("must be http or https")
    return str(value)


def _needs_an_effect(redirect: Any) -> Iterator[Finding]:
    targets = (redirect.scheme_redirect, redirect.host_redirect, redirect.port_redirect, redirect.path_redirect, redirect.prefix_rewrite)
    if not (redirect.https_redirect or redirect.strip_query or any(target is not None for target in targets)):
        yield (), "changes nothing, so it would lead to itself for ever"


AbsolutePath = Annotated[str, PlainValidator(absolute_path)]
RewrittenPath = Annotated[str, PlainValidator(rewritten_path)]


class Redirect(Settings):
    """Answers with a redirect instead of proxying."""

    RULES = (_needs_an_effect,)

    https_redirect: Bool = False
    scheme_redirect: Annotated[str, PlainValidator(web_scheme)] | None = None
    host_redirect: Annotated[Text, AfterValidator(canonical_host)] | None = None
    port_redirect: Annotated[int, PlainValidator(port)] | None = None
    path_redirect: Annotated[str, PlainValidator(location_path)] | None = None
    prefix_rewrite: RewrittenPath | None = None
    response_code: Annotated[int, PlainValidator(redirect_code)] = 301
    strip_query: Bool = False


def _leads_somewhere(route: Any) -> Iterator[Finding]:
    if not route.to and route.redirect is None:
        yield (), "needs `to` or `redirect`"


def _open_routes_have_no_lists(route: Any) -> Iterator[Finding]:
    names = ("allowed_users", "allowed_groups", "allowed_domains", "allowed_idp_claims")
    lists = [name for name in names if getattr(route, name)]
    for key in ("allow_public_unauthenticated_access", "allow_any_authenticated_user"):
        if lists and getattr(route, key):
            yield (key,), f"lets everybody pass, so {', '.join(lists)} would have no effect: remove one or the other"


def _origins_need_websockets(route: Any) -> Iterator[Finding]:
    if route.websocket_origins and not route.allow_websockets:
        yield ("websocket_origins",), "has no effect without allow_websockets"


class Route(Settings):
    """`path`, `prefix`, `regex` and `prefix_rewrite` are as written; policy brings them into canonical form."""

    RULES = (_leads_somewhere, _open_routes_have_no_lists, _origins_need_websockets)
    UNBUILT: ClassVar[tuple[str, ...]] = unbuilt.ROUTE_KEYS

    from_: Annotated[Url, PlainValidator(from_url)] = Field(alias="from")
    to: Annotated[tuple[Url, ...], PlainValidator(upstream_urls)] = ()
    redirect: Redirect | None = None
    path: AbsolutePath | None = None
    prefix: AbsolutePath | None = None
    regex: Annotated[str, PlainValidator(re2_expression)] | None = None
    prefix_rewrite: RewrittenPath | None = None
    preserve_host_header: Bool = False
    allowed_domains: Annotated[tuple[str, ...], PlainValidator(domains)] = ()
    allowed_groups: TextList = ()
    allowed_users: TextList = ()
    allowed_idp_claims: Annotated[Mapping[str, tuple[Any, ...]], PlainValidator(flattened_claims)] = Field(default_factory=dict)
    allow_public_unauthenticated_access: Bool = False
    allow_any_authenticated_user: Bool = False
    cors_allow_preflight: Bool = False
    allow_websockets: Bool = False
    websocket_origins: Annotated[tuple[str, ...], PlainValidator(origins)] = ()
    timeout: Duration | None = None
    set_request_headers: RequestHeaders = Field(default_factory=dict)
    remove_request_headers: RemovableHeaders = ()
    pass_identity_headers: Bool = False
    tls_skip_verify: Bool = False
    tls_server_name: Annotated[Text, AfterValidator(canonical_host)] | None = None
    tls_custom_ca_file: File | None = None
    tls_custom_ca: Annotated[Base64 | None, or_file("tls_custom_ca_file")] = Field(default=None, validate_default=True)
    name: Text | None = None

    @cached_property
    def id(self) -> str:
        """16 hex digits that stay the same while the route matches and leads to the same."""
        redirect = None if self.redirect is None else self.redirect.model_dump(mode="json")
        key = [str(self.from_), self.path, self.prefix, self.regex, [str(target) for target in self.to], redirect]
        return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
